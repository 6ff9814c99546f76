/** The `arke` command line as the user has to type it. */
import { fileURLToPath } from 'node:url'
import { isBuilt, moduleFile } from '../files.ts'
import { shorten } from './errors.ts'

/** The command that starts `arke`, either from a checkout or installed. */
export const arke = isBuilt ? 'npx arke' : `npx tsx ${quote(shorten(fileURLToPath(moduleFile('cli/main'))))}`

/** Quotes a text as one word of a shell command. */
export function quote(text: string): string {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
