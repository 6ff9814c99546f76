/** The command as the reader has to type it. */
import { fileURLToPath } from 'node:url'
import { isBuilt, moduleFile } from '../files.ts'
import { shorten } from './errors.ts'

/** How this command is started: from a checkout, or installed. */
export const arke = isBuilt ? 'npx arke' : `npx tsx ${quote(shorten(fileURLToPath(moduleFile('cli/main'))))}`

/** One word of a shell. */
export function quote(text: string): string {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
