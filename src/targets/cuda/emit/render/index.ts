/** The table of all ops with their renderers. */
import type { Block } from '../../../../ir/node.ts'
import { opsWith, type OpName } from '../../../../ir/ops/index.ts'
import type { Emission } from '../emission.ts'
import { atomic } from './atomics.ts'
import * as control from './control.ts'
import * as declarations from './declarations.ts'
import { assert } from './diagnostics.ts'
import { dot, dotWait, operands } from './dot.ts'
import { rows } from './exchange.ts'
import { gatherings } from './gathered.ts'
import * as memory from './memory.ts'
import { combine, reduce } from './reductions.ts'
import { silent, type Renderer } from './renderer.ts'
import * as staged from './store.ts'
import * as sync from './sync.ts'
import * as values from './values.ts'
import * as words from './words.ts'

/** Reports an op that an earlier stage should have replaced. */
const isLeft: Renderer = (node, emission) =>
  emission.refuse(node, 'an earlier stage should have replaced this op: emit the lowered kernel')

export const renderers: Readonly<Record<OpName, Renderer>> = {
  ...opsWith({ elements: 'same' }, values.elementwise),

  const: values.constant,
  iota: values.iota,
  rank: values.rank,
  program: values.program,
  programs: values.programs,
  'reduce.sum': reduce,
  'reduce.max': reduce,
  'reduce.min': reduce,
  ...gatherings,
  expand: values.expand,
  broadcast: values.broadcast,
  transpose: values.transpose,
  dot,

  on: silent,
  dim: values.dim,
  slice: silent,
  pick: declarations.pick,
  tile: silent,
  rows,
  at: silent,

  shared: declarations.shared,
  load: memory.load,
  store: memory.store,
  copy: memory.copy,
  'copy.async': memory.copyAsync,
  'copy.nbi': memory.copyInFlight,
  'put.signal': isLeft,
  quiet: isLeft,
  'atomic.add': atomic,
  'atomic.sub': atomic,
  'atomic.cas': atomic,
  'atomic.xchg': atomic,
  'atomic.and': atomic,
  'atomic.or': atomic,
  'atomic.xor': atomic,
  'atomic.min': atomic,
  'atomic.max': atomic,

  epoch: sync.epoch,
  signal: sync.signal,
  wait: sync.wait,
  reached: sync.reached,
  fence: sync.fence,
  barrier: sync.barrier,
  barriers: declarations.barriers,
  'barrier.arrive': sync.barrierArrive,
  'barrier.wait': sync.barrierWait,
  'cluster.meet': sync.clusterMeet,

  assert,
  print: (node, emission) =>
    emission.refuse(
      node,
      'an earlier stage should have replaced this op: give the kernel a print buffer first',
    ),

  param: silent,
  result: control.result,
  for: control.forLoop,
  while: control.whileLoop,
  if: control.ifElse,
  persistent: control.persistent,
  pipeline: isLeft,
  roles: control.roles,
  teams: control.teams,
  last: control.last,

  combine,
  meet: sync.meet,
  'fence.async': sync.fenceAsync,
  drain: sync.drain,
  'dot.wait': dotWait,
  held: sync.held,
  'arrive.held': sync.arriveHeld,
  once: sync.once,
  operands,
  staging: silent,
  boxes: staged.boxes,
  'staging.place': staged.place,
  stage: staged.stage,
  'store.box': staged.storeBox,
  'words.post': words.post,
  'words.take': words.take,
  until: words.until,
  'advance.signal': words.advance,
  'advance.wait': words.advance,
  // The emitter renders the ops at the start of a program when it knows the kernel's body (start.ts).
  ...opsWith({ place: 'start' }, silent),
}

export function renderBlock(block: Block, emission: Emission): void {
  for (const node of block.nodes) renderers[node.op](node, emission)
}
