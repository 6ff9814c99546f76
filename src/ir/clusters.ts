/**
 * Clusters: consecutive programs of a launch that process neighbouring items of a `persistent` loop at the same time.
 * The attribute `cluster` of a `persistent` loop holds the extents of its clusters. The indices of the last axes of the
 * loop are the position of a program in its cluster, and the last axis varies fastest. Because the last axis varies
 * fastest, the position of a program in its cluster follows from the index of the program.
 */
import { analysis } from './analysis.ts'
import { walk, type KernelIR, type Node } from './node.ts'
import { KernelError } from './site.ts'

/** The maximum number of programs in a cluster. All GPUs with clusters support clusters of 8 programs. */
export const MOST_IN_CLUSTER = 8

/**
 * The extents of the clusters (groups of neighbouring programs) of a kernel, or undefined if it has none. An error is
 * thrown if two loops have clusters of different extents.
 */
export const clusterOf = analysis('cluster of a kernel', findCluster)

function findCluster({ name, body }: KernelIR): readonly number[] | undefined {
  let found: Node | undefined
  for (const node of walk(body)) {
    if (node.op !== 'persistent' || !node.attributes.cluster) continue
    if (found && extentsOf(found).join() !== extentsOf(node).join())
      throw new KernelError(
        `${name}: this loop has clusters of ${extentsOf(node).join(' x ')} programs, and the loop at ${found.site} has clusters of ${extentsOf(found).join(' x ')}, but all clusters of a launch must have the same shape`,
        node.site,
      )
    found ??= node
  }
  return found && extentsOf(found)
}

/** The extents of the cluster, from the attribute `cluster` of a loop or copy. */
export const extentsOf = ({ attributes }: Node): readonly number[] => attributes.cluster as readonly number[]

export const sizeOf = (cluster: readonly number[]): number =>
  cluster.reduce((product, extent) => product * extent, 1)

/** The distance between the indices of two programs that are neighbours along an axis of their cluster. */
export const strideOf = (cluster: readonly number[], axis: number): number => sizeOf(cluster.slice(axis + 1))

/**
 * The positions in a cluster that differ from the position `place` only along `axis`, in order. The result includes
 * `place` itself.
 */
export function alongOf(cluster: readonly number[], axis: number, place: number): number[] {
  const stride = strideOf(cluster, axis)
  const first = place - (Math.floor(place / stride) % cluster[axis]) * stride
  return Array.from({ length: cluster[axis] }, (_, i) => first + i * stride)
}

/**
 * The number of programs of a launch with clusters: `programs`, rounded down to a multiple of `size`, the number of
 * programs in a cluster, if at least one cluster fits.
 */
export const wholeClusters = (programs: number, size: number): number =>
  programs < size ? programs : programs - (programs % size)
