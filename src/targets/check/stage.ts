/** Records kernels for the checker and compiles them at the IR stage that a world checks. */
import type { KernelIR } from '../../ir/node.ts'
import type { RoleShape } from '../../ir/roles.ts'
import { KernelError, Site } from '../../ir/site.ts'
import { lowerFor } from '../../ir/stages.ts'
import type { Kernel, Meta, Params } from '../../lang/kernel.ts'
import { argumentOf, hostSignals, type Handle } from '../../world/arguments.ts'
import type { LaunchArguments } from '../../world/world.ts'
import type { Code } from './code.ts'
import { compile } from './compiler.ts'

/**
 * The IR stage at which the checker runs kernels: a name, or a function that derives the IR. The function receives the
 * recorded kernel, the shapes of its tensors, and a boolean: whether the host signals flags of the launch.
 */
export type Stage =
  | 'recorded'
  | 'lowered'
  | ((
      recorded: KernelIR,
      shapes: Readonly<Record<string, readonly number[]>>,
      hostSignals: boolean,
    ) => KernelIR)

/**
 * The numbers of warps per role with which the checker compiles a kernel to the stage `lowered`. The checker executes a
 * role as one agent, so the numbers of warps have no effect, and no maximum applies.
 */
const anyRoles: RoleShape = {
  producerWarps: 1,
  courierWarps: 0,
  consumers: [{ fromRows: 0, warps: 1 }],
  mostWarps: Infinity,
}
const lowered = (recorded: KernelIR): KernelIR => lowerFor(recorded, anyRoles)

/** Derives the IR of a stage from the recorded kernel. */
export type Form = Exclude<Stage, string>

export const formAt = (stage: Stage): Form =>
  stage === 'recorded' ? (ir) => ir : stage === 'lowered' ? lowered : stage

export function compileAt<P extends Params, M extends Meta>(
  form: Form,
  kernel: Kernel<P, M>,
  args: LaunchArguments<P>,
  meta: Meta | undefined,
  world: number,
): Code {
  const given = Object.entries(args).map(
    ([name, value]) => [name, argumentOf(value, 0) as number | Handle] as const,
  )
  const shapes = given.flatMap(([name, handle]) =>
    typeof handle === 'object' && handle.kind === 'tensor' ? [[name, handle.shape] as const] : [],
  )
  const isByHost = hostSignals(given.map(([, handle]) => handle))
  return compile(form(record(kernel, meta, world), Object.fromEntries(shapes), isByHost))
}

/**
 * Records a kernel for the checker. An error thrown while recording is a mistake in the kernel, not a result of the
 * scenario.
 */
export function record<P extends Params, M extends Meta>(
  kernel: Kernel<P, M>,
  meta: Meta | undefined,
  world: number,
): KernelIR {
  try {
    return kernel.record({ world, meta })
  } catch (error) {
    if (!(error instanceof Error) || error.name !== 'Error') throw error
    throw new KernelError(`${kernel.name} cannot be recorded: ${error.message}`, Site.of(error))
  }
}
