/**
 * Where the package's own files are, in a checkout or built. Built, many modules lie in one file, so that a module cannot tell
 * where the others are from where it lies itself; this one can. `scripts/build.ts` gives every module that is asked for here a
 * file of its own.
 */

/** Whether this is what `npm run build` made, and no checkout. */
export const isBuilt = !import.meta.url.endsWith('.ts')

/** The folder of the package; where another bundler took Arke in, that of what it made. */
const root = isBuilt
  ? (/^.*\/(?=dist\/)/.exec(import.meta.url)?.[0] ?? new URL('.', import.meta.url).href)
  : import.meta.url.slice(0, -'src/files.ts'.length)

/** The URL of a file by its path in the package, such as `examples`. */
export const packageFile = (path: string): string => `${root}${path}`

/** The URL of a file by its path in `src`, and in what was built of it. */
export const ownFile = (path: string): string => packageFile(`${isBuilt ? 'dist' : 'src'}/${path}`)

/** The URL of a module by its path in `src`, without its ending. */
export const moduleFile = (path: string): string => ownFile(`${path}.${isBuilt ? 'js' : 'ts'}`)
