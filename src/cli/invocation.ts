/** The command as the reader has to type it. */
import { fileURLToPath } from 'node:url'
import { shorten } from './errors.ts'

/** How this command is started: from a checkout, or installed. */
export const arke = import.meta.url.endsWith('.ts')
  ? `npx tsx ${quote(shorten(fileURLToPath(new URL('main.ts', import.meta.url))))}`
  : 'npx arke'

/** One word of a shell. */
export function quote(text: string): string {
  return /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
