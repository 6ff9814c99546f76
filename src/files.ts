/**
 * Locates the package's own files, in a checkout or in the built package. In the built package, many modules are
 * bundled into one file, so a module cannot find other modules relative to its own URL. `scripts/build.ts` keeps every
 * module that is located through this file as a separate file.
 */

/** True in the package that `npm run build` creates, false in a checkout. */
export const isBuilt = !import.meta.url.endsWith('.ts')

/** The URL of the package's folder. The URL is undefined if a bundler other than Arke's own has bundled Arke. */
const folder = isBuilt
  ? /^.*\/(?=dist\/)/.exec(import.meta.url)?.[0]
  : import.meta.url.slice(0, -'src/files.ts'.length)
/** The URL of the package's folder; if that is unknown, the URL of the folder of the bundle that contains Arke. */
const root = folder ?? new URL('.', import.meta.url).href

/**
 * The folders of Arke's code. If source maps are enabled, stack frames of the built package name files of the source
 * folder, so the source folder and the folder of the built package are listed.
 */
const codeFolders = folder === undefined ? [] : [`${folder}src/`, `${folder}dist/`]

/** True for the URL of a file of Arke's own code. Examples and tests do not count as Arke's own code. */
export const isOwnCode = (url: string): boolean => codeFolders.some((one) => url.startsWith(one))

/** The URL of a file, given its path in the package, such as `examples`. */
export const packageFile = (path: string): string => `${root}${path}`

/** The URL of a file, given its path in `src`, or in `dist` if built. */
export const ownFile = (path: string): string => packageFile(`${isBuilt ? 'dist' : 'src'}/${path}`)

/** The URL of a module, given its path in `src` without the file extension. */
export const moduleFile = (path: string): string => ownFile(`${path}.${isBuilt ? 'js' : 'ts'}`)
