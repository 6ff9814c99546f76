/**
 * Defines the ops for copies in flight: non-blocking puts and gets, asynchronous stores of shared tiles, and the op
 * `quiet`, which completes them. The file also has the record of a put with a signal, which is complete at once.
 *
 * `copy.nbi` starts a copy (source, target, mask). The read and the write of a copy in flight last until a `quiet` of
 * the same role, or until the end of that role. A `quiet` with the attribute `reads` completes only the reads, so that
 * the sources may be written again. No other op completes a copy in flight: neither a signal, a fence nor a barrier
 * does.
 *
 * `put.signal` (flag, source, target, mask) is a copy followed by a signal of the same role. A target on which other
 * ranks' memory has addresses replaces `put.signal` by a copy and a signal (../passes/puts.ts).
 */
import type { Node } from '../node.ts'
import { voidType, type RefType } from '../type.ts'
import { fullDrain } from './companions.ts'
import { expectCopy, expectMask } from './memory.ts'
import { expectInputs, fail, straight, yieldsNothing, type Op, type Unplaced } from './op.ts'
import { expectFlag, expectOrderIn } from './sync.ts'

/**
 * Of the two roles of a pipeline, only the consumer executes the ops for copies in flight, so that the role that starts
 * a copy also waits for its completion.
 */
const ahead = 'consumer'

/** Checks a copy whose source is input `at` and whose mask, if any, follows the target. */
function expectMaskedCopy(node: Unplaced, at: number): ReturnType<typeof expectCopy> {
  expectInputs(node, at + 2, at + 3)
  const [source, target, mask] = node.inputs.slice(at) as (Node | undefined)[]
  const copied = expectCopy(source, target)
  expectMask(mask, copied.source.shape)
  return copied
}

const isGlobal = ({ space }: RefType): boolean => space === 'global'

export const inFlightOps = {
  'copy.nbi': {
    ...yieldsNothing,
    ...straight,
    ahead,
    effect: 'write',
    accesses: [
      { at: 0, level: 'either', reads: true, writes: false, mask: 2 },
      { at: 1, level: 'either', reads: false, writes: true, mask: 2 },
    ],
    completes: 'at quiet',
    needs: fullDrain,
    order: 'none',
    scope: 'none',
    summary: 'starts an asynchronous copy, which may continue until the role executes `quiet`',
    infer(node) {
      const { source, target } = expectMaskedCopy(node, 0)
      if (!isGlobal(source) && !isGlobal(target))
        fail('an asynchronous copy must read or write a tensor: copy between shared tiles with t.copy()')
      return voidType
    },
  },
  quiet: {
    ...yieldsNothing,
    ...straight,
    ahead,
    effect: 'sync',
    accesses: [],
    order: 'both',
    scope: 'threads',
    summary:
      'waits until all asynchronous copies that the role has started are complete, or with `reads` only until these copies have read their sources',
    infer(node) {
      expectInputs(node, 0)
      const { of } = node.attributes
      if (of !== 'reads' && of !== 'all')
        fail(`the attribute \`of\` is ${String(of)}, but must be reads or all`)
      return voidType
    },
  },
  'put.signal': {
    ...yieldsNothing,
    ...straight,
    ahead,
    effect: 'write',
    accesses: [
      { at: 1, level: 'either', reads: true, writes: false, mask: 3 },
      { at: 2, level: 'global', reads: false, writes: true, mask: 3 },
    ],
    advances: 'signal',
    order: 'attribute',
    scope: 'attribute',
    summary:
      'copies elements, then signals a flag for this epoch; an agent that waits for the flag sees the copied elements and everything that this role did before',
    infer(node) {
      expectFlag(node.inputs[0])
      expectMaskedCopy(node, 1)
      expectOrderIn(node, ['release'])
      return voidType
    },
  },
} as const satisfies Record<string, Op>
