/** The types of the options and bodies that the methods of `t` take, and the checks of these options. */
import { MOST_IN_CLUSTER } from '../ir/clusters.ts'
import type { Attributes } from '../ir/node.ts'
import { KernelError, Site } from '../ir/site.ts'
import { access, type Access, type Masked } from './access.ts'
import type { Carried } from './carried.ts'
import type { Index, Only, Refused, Scalar } from './value.ts'

export interface LoopRange {
  readonly from?: Index
  readonly to: Index
  readonly step?: Index
}

export interface LastOptions {
  /** The index for which an arrival at `t.last` counts. The index is less than `of`, and 0 by default. */
  readonly at?: Index
  /** The number of indices of `t.last`, each with its own count of arrivals; 1 by default. */
  readonly of?: number
  /**
   * The number of arrivals at an index after which the body of `t.last` is executed. The default number of arrivals is
   * the number of programs of the launch, or of the team.
   */
  readonly arrivals?: Index
}

export interface PipelineOptions {
  /**
   * The number of stages of a pipeline: the number of tiles that can be in flight. A pipeline has 2 stages by default;
   * with 1 stage, copies and computation do not overlap.
   */
  readonly stages?: number
}

export interface PersistentOptions {
  /**
   * The extents of a cluster, one for each axis of the space. The programs of a cluster process neighbouring items at
   * the same time, so that a copy with `multicast` can fetch a tile once for several of them.
   */
  readonly cluster?: readonly number[]
}

export interface CopyOptions<R extends number> extends Masked<R> {
  /**
   * The axis of the cluster along which a copy is multicast: programs that differ only along this axis copy the same
   * elements, each into its own copy of one shared tile. A target may then fetch the elements once and write them to
   * the tiles of all programs along the axis.
   */
  readonly multicast?: number
}

export interface WaitOptions extends Access {
  /**
   * The number of launches by which the awaited signal is older than this launch: with `lag` 1, the wait requires the
   * signal of the previous launch.
   */
  readonly lag?: number
  /**
   * The number of signals in this epoch after which the wait ends. By default, `wait` requires all `arrivals` signals
   * of the epoch.
   */
  readonly atLeast?: Index
}

/** The attributes of an op that waits for a flag, or that tests whether a wait would return. */
export const awaited = ({ lag = 0, order, scope }: WaitOptions): Attributes => ({
  ...access({ order, scope }, 'acquire'),
  lag,
})

export type FragmentShape = readonly [number] | readonly [number, number]
export type Indices<E extends readonly Index[]> = { readonly [K in keyof E]: Scalar<'i32'> }
export type Body = () => void
export type RoleBody = Body | { readonly warps: number; readonly body: Body }
export type Yielded = Carried | void
/** The state with which a loop starts, and the state that the loop's body takes and returns. */
export type Initial<C> = Only<
  C,
  Carried,
  C,
  'only values can be carried; t.constant(dtype, x) converts a number to a value'
>
export type State<C> = Only<C, Carried, C, Refused>

/** Checks the cluster of a `persistent` loop whose space has `axes` axes. */
export function expectCluster(cluster: readonly number[], axes: number, inTeam: boolean): void {
  const size = cluster.reduce((product, extent) => product * extent, 1)
  if (cluster.length !== axes)
    throw new KernelError(
      `persistent: the cluster has ${cluster.length} extents, but the space has ${axes} axes: give one extent for each axis`,
      Site.here(),
    )
  if (!cluster.every((extent) => Number.isInteger(extent) && extent >= 1) || size > MOST_IN_CLUSTER)
    throw new KernelError(
      `persistent: the cluster is ${cluster.join(' x ')}, but its extents must be whole numbers, with 1 to ${MOST_IN_CLUSTER} programs in all`,
      Site.here(),
    )
  if (inTeam && size > 1)
    throw new KernelError(
      'persistent: a loop with clusters must be outside teams, because a cluster consists of consecutive programs of the launch',
      Site.here(),
    )
}
