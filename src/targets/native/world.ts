/** Opens worlds on the native target, on Node. */
import { moduleFile } from '../../files.ts'
import { WorldError } from '../../world/world.ts'
import { lowerKernel } from '../cpu/lower/lower.ts'
import { nodeThreads } from '../cpu/node.ts'
import type { CpuPlatform } from '../cpu/host.ts'
import { CpuWorld, type CpuWorldOptions } from '../cpu/world.ts'
import { nativeEngine } from './node.ts'
import { panelSteps } from './description.ts'

let platform: CpuPlatform | undefined

export function openNativeWorld(options: CpuWorldOptions): CpuWorld {
  if (!platform) {
    const engine = nativeEngine()
    if ('unavailable' in engine)
      throw new WorldError(
        `the native target is not available here: ${engine.unavailable}. Use the wasm target, which needs no compiler`,
      )
    platform = {
      target: 'native',
      threads: nodeThreads,
      engine,
      lower: lowerKernel,
      loader: { module: moduleFile('targets/native/node'), name: 'loadNative' },
      panelSteps,
    }
  }
  return new CpuWorld(platform, options)
}

export function nativeStatus(): { readonly usable: boolean; readonly about: string } {
  const engine = nativeEngine()
  if ('unavailable' in engine) return { usable: false, about: engine.unavailable }
  const { lanes } = engine.machine
  return {
    usable: true,
    about: `ranks are threads of this process; kernels built by ${engine.compiler}, ${lanes} lanes`,
  }
}
