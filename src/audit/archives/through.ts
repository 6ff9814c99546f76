/** Passes a stream of chunks through a decompressor. */
export async function* through(
  input: AsyncIterable<Uint8Array>,
  stream: NodeJS.ReadWriteStream & { destroyed: boolean; destroy: (error?: Error) => unknown },
): AsyncGenerator<Uint8Array> {
  const feed = async (): Promise<void> => {
    for await (const piece of input) {
      if (stream.destroyed) return
      if (!stream.write(piece))
        await new Promise<void>((resolve) => void stream.once('drain', resolve).once('close', resolve))
    }
    if (!stream.destroyed) stream.end()
  }
  const feeding = feed().catch((error: unknown) => void stream.destroy(error as Error))
  try {
    for await (const piece of stream) yield piece as Buffer
  } finally {
    stream.destroy()
    await feeding
  }
}
