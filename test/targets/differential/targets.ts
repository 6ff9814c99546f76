/** Which targets this machine offers, asked once; of the others the reason is printed. */
import { openWorld } from '../../../src/index.ts'

/** Every target that runs kernels as the checker does, without a GPU; ARKE_TARGETS names fewer. */
const known = process.env.ARKE_TARGETS?.split(',') ?? ['wasm', 'native']

async function offered(target: string): Promise<boolean> {
  try {
    const world = await openWorld({ target, ranks: 1 })
    await world.close()
    return true
  } catch (error) {
    console.info(`${target} is left out: ${error instanceof Error ? error.message : String(error)}`)
    return false
  }
}

export async function realTargets(): Promise<string[]> {
  const found: string[] = []
  for (const target of known) if (await offered(target)) found.push(target)
  return found
}
