/** Maps every op without blocks to the instruction that it becomes. The compiler (code.ts) handles control flow. */
import { opsWith, type OpName } from '../../ir/ops/index.ts'
import { clusterMeet } from './clusters.ts'
import type { Maker, Structural } from './code.ts'
import * as diagnostics from './diagnostics.ts'
import * as engines from './engines.ts'
import * as memory from './instructions.ts'
import * as staging from './staging.ts'
import { constant, evaluated, program, programs, rank } from './values.ts'
import * as views from './views.ts'
import * as words from './words.ts'

export const makers: Readonly<Record<Exclude<OpName, Structural>, Maker>> = {
  ...opsWith({ elements: 'same' }, evaluated),
  ...opsWith({ elements: 'stretched' }, evaluated),
  ...opsWith({ elements: 'reduced' }, evaluated),
  ...opsWith({ elements: 'gathered' }, evaluated),
  const: constant,
  iota: evaluated,
  rank,
  program,
  programs,
  transpose: (node, ...rest) => (node.type.kind === 'ref' ? views.transpose : evaluated)(node, ...rest),
  dot: memory.dot,

  on: views.on,
  dim: views.dim,
  slice: views.slice,
  pick: views.pick,
  tile: views.tile,
  rows: views.rows,
  at: views.at,

  shared: memory.shared,
  load: memory.load,
  store: memory.store,
  copy: memory.copy,
  'copy.async': memory.copyAsync,
  'copy.nbi': memory.copyInFlight,
  'put.signal': memory.putSignal,
  ...opsWith({ effect: 'write', elements: 'other' }, memory.atomic),

  epoch: views.epoch,
  signal: memory.signal,
  wait: memory.wait,
  reached: memory.reached,
  fence: memory.fence,
  quiet: engines.complete,
  barrier: memory.barrier,
  barriers: memory.barriers,
  'barrier.arrive': memory.arrive,
  'barrier.wait': memory.waitPhase,

  'cluster.meet': clusterMeet,
  assert: diagnostics.assert,
  print: diagnostics.print,

  meet: engines.meet,
  'fence.async': engines.fenceAsync,
  drain: engines.complete,
  operands: staging.operands,
  staging: memory.shared,
  'staging.place': staging.place,
  stage: staging.stage,
  'store.box': staging.storeBox,
  'words.post': words.post,
  'words.take': words.take,
  'advance.signal': words.advance,
  'advance.wait': words.advance,
}
