/**
 * Reads the blocks of data in a page, which are base64 text of gzip data. Each block of data is read once and then
 * removed from the page.
 */
import { byId } from './dom.ts'

export const canInflate = (): boolean => typeof DecompressionStream !== 'undefined'

export async function inflate(id: string): Promise<Uint8Array> {
  const holder = byId(id)
  const bytes = decode(holder.textContent ?? '')
  holder.remove()
  const { readable, writable } = new DecompressionStream('gzip')
  const writer = writable.getWriter()
  // Errors of the decompressor also reach the reader of the stream, where they are handled.
  writer.write(bytes).catch(() => undefined)
  writer.close().catch(() => undefined)
  // The last four bytes of a gzip file hold the uncompressed length.
  const inflated = new Uint8Array(new DataView(bytes.buffer).getUint32(bytes.length - 4, true))
  const reader = readable.getReader()
  let length = 0
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    inflated.set(next.value, length)
    length += next.value.length
  }
  return inflated
}

function decode(base64: string): Uint8Array<ArrayBuffer> {
  const native = Uint8Array as { fromBase64?: (text: string) => Uint8Array<ArrayBuffer> }
  if (native.fromBase64) return native.fromBase64(base64)
  const text = atob(base64)
  const bytes = new Uint8Array(text.length)
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i)
  return bytes
}
