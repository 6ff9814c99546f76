/**
 * Implements `arke targets`, which lists the targets, and for each target that cannot be used on this machine the
 * reason.
 */
import { plain, type Style } from '../report/style.ts'
import type { StagedTarget } from '../targets/stages.ts'

export interface TargetStatus {
  readonly name: string
  readonly usable: boolean
  readonly about: string
}

export async function targetStatus(): Promise<TargetStatus[]> {
  const others = Object.entries(statuses).map(async ([name, status]) => ({ name, ...(await status()) }))
  return [
    {
      name: 'check',
      usable: true,
      about: 'interprets kernels under many schedules; needs no other software',
    },
    ...(await Promise.all(others)),
  ]
}

/** The status of each target. The code of a target is loaded only when the status of the target is read. */
const statuses: Readonly<Record<StagedTarget, () => Promise<Omit<TargetStatus, 'name'>>>> = {
  wasm: async () => (await import('../targets/wasm/world.ts')).wasmStatus(),
  native: async () => (await import('../targets/native/world.ts')).nativeStatus(),
  cuda: async () => (await import('../targets/cuda/open.ts')).cudaStatus(),
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
