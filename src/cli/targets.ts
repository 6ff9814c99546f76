/** `arke targets`: lists the targets, and for each target that cannot be used on this machine the reason. */
import { plain, type Style } from '../report/style.ts'

export interface TargetStatus {
  readonly name: string
  readonly usable: boolean
  readonly about: string
}

export async function targetStatus(): Promise<TargetStatus[]> {
  const [{ cudaStatus }, { wasmStatus }, { nativeStatus }] = await Promise.all([
    import('../targets/cuda/open.ts'),
    import('../targets/wasm/world.ts'),
    import('../targets/native/world.ts'),
  ])
  return [
    { name: 'check', usable: true, about: 'interprets kernels under many schedules; needs nothing' },
    { name: 'wasm', ...wasmStatus() },
    { name: 'native', ...nativeStatus() },
    { name: 'cuda', ...cudaStatus() },
  ]
}

export function targetTable(targets: readonly TargetStatus[], style: Style = plain): string {
  const width = Math.max(...targets.map(({ name }) => name.length))
  return targets
    .map(
      ({ name, usable, about }) =>
        `${name.padEnd(width)}  ${usable ? style.good('yes') : style.bad('no ')}  ${about}`,
    )
    .join('\n')
}
