/** The commit of the checkout that runs, for the provenance of results. */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { packageFile } from '../files.ts'

/**
 * The abbreviated commit, with the suffix `-dirty` if tracked files were changed. Null without a checkout: git would
 * otherwise name the commit of the project in which the package is installed.
 */
export function commitOfCheckout(): string | null {
  if (!existsSync(fileURLToPath(packageFile('.git')))) return null
  try {
    const args = ['describe', '--always', '--dirty', '--abbrev=7', '--exclude=*']
    const options = { cwd: fileURLToPath(packageFile('')), encoding: 'utf8', stdio: 'pipe' } as const
    return execFileSync('git', args, options).trim()
  } catch {
    return null
  }
}
