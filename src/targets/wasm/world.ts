/** Opens worlds on the wasm target, on Node. */
import { moduleFile } from '../../files.ts'
import { lowerKernel } from '../cpu/lower/lower.ts'
import { nodeThreads } from '../cpu/node.ts'
import type { CpuPlatform } from '../cpu/host.ts'
import { CpuWorld, type CpuWorldOptions } from '../cpu/world.ts'
import { wasmEngine, wasmFeatures } from './engine.ts'
import { enableRelaxedSimd, optimiseWhenLoaded } from './node.ts'
import { panelSteps } from './description.ts'

let platform: CpuPlatform | undefined

export function openWasmWorld(options: CpuWorldOptions): CpuWorld {
  if (!platform) {
    enableRelaxedSimd()
    optimiseWhenLoaded()
    platform = {
      target: 'wasm',
      threads: nodeThreads,
      engine: wasmEngine(),
      lower: lowerKernel,
      loader: { module: moduleFile('targets/wasm/engine'), name: 'loadWasm' },
      panelSteps,
    }
  }
  return new CpuWorld(platform, options)
}

export function wasmStatus(): { readonly usable: boolean; readonly about: string } {
  const relaxed = enableRelaxedSimd()
  const { simd, threads } = wasmFeatures()
  if (!simd || !threads)
    return { usable: false, about: `this runtime has no wasm ${simd ? 'threads' : 'SIMD'}` }
  return { usable: true, about: `ranks are threads of this process; ${relaxed ? 'relaxed' : 'plain'} SIMD` }
}
