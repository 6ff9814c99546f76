/** Finds the git commit of the running code, which is stored with the results of measurements. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { isBuilt, ownFile, packageFile } from '../files.ts'

/** The file in which `npm run build` states the commit that it built, relative to `dist`. */
export const builtCommitFile = 'commit.json'

/**
 * The commit from which the package was built, or the commit of the checkout. The commit is null if neither the package
 * nor a checkout states it.
 */
export function commitOfCode(): string | null {
  if (!isBuilt) return commitOfCheckout()
  const file = fileURLToPath(ownFile(builtCommitFile))
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as string | null) : null
}

/**
 * The abbreviated commit, with the suffix `-dirty` if tracked files were changed. The commit is null outside a
 * checkout: git would otherwise name the commit of the project in which the package is installed.
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
