/**
 * A folder for the package as it is installed (installed.ts), one for all test files of a run, empty at first: whoever
 * needs the package first builds it.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'

declare module 'vitest' {
  export interface ProvidedContext {
    installFolder: string
  }
}

export default function setup(project: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'arke-installed-'))
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  project.provide('installFolder', folder)
  // While watching, the sources may have changed.
  project.onTestsRerun(() => {
    remove()
    mkdirSync(folder)
  })
  return remove
}
