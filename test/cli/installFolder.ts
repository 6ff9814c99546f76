/**
 * Creates an empty folder for the installed package (installed.ts), which all test files of a run share. The first test
 * file that needs the package builds it.
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
  // In watch mode the sources may have changed since the last run.
  project.onTestsRerun(() => {
    remove()
    mkdirSync(folder)
  })
  return remove
}
