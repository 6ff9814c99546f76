/** `arke targets`: which targets there are, and for those that cannot be used here, why not. */
import { worlds } from '../world/open.ts'

export interface TargetStatus {
  readonly name: string
  readonly usable: boolean
  readonly about: string
}

export async function targetStatus(): Promise<TargetStatus[]> {
  const [{ findCuda }, { wasmStatus }, { nativeStatus }] = await Promise.all([
    import('../targets/cuda/driver.ts'),
    import('../targets/wasm/world.ts'),
    import('../targets/native/world.ts'),
  ])
  const cuda = findCuda()
  const runs = Object.hasOwn(worlds, 'cuda')
  const devices = cuda.available ? `${cuda.deviceCount} device${cuda.deviceCount === 1 ? '' : 's'} found` : ''
  return [
    { name: 'check', usable: true, about: 'interprets kernels under many schedules; needs nothing' },
    { name: 'wasm', ...wasmStatus() },
    { name: 'native', ...nativeStatus() },
    {
      name: 'cuda',
      usable: cuda.available && runs,
      about: cuda.available ? (runs ? devices : `${devices}; kernels do not run on it yet`) : cuda.reason,
    },
  ]
}

export function targetTable(targets: readonly TargetStatus[]): string {
  const width = Math.max(...targets.map(({ name }) => name.length))
  return targets
    .map(({ name, usable, about }) => `${name.padEnd(width)}  ${usable ? 'yes' : 'no '}  ${about}`)
    .join('\n')
}
