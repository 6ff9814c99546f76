/** Detects which targets this machine has and prints the reason why others are missing. */
import { openWorld } from '../../../src/index.ts'

/** The targets that run kernels without a GPU. ARKE_TARGETS can name fewer targets. */
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
