/**
 * Maps every op without blocks to the instruction to which the checker compiles it. The compiler (compiler.ts) handles
 * control flow.
 */
import { opsWith, type OpName } from '../../ir/ops/index.ts'
import { clusterMeet } from './clusters.ts'
import type { Maker, Structural } from './code.ts'
import * as diagnostics from './diagnostics.ts'
import * as engines from './engines.ts'
import * as memory from './memoryInstructions.ts'
import * as staging from './staging.ts'
import * as start from './start.ts'
import { atomic } from './strongAccess.ts'
import * as sync from './syncInstructions.ts'
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
  ...opsWith({ effect: 'write', elements: 'other' }, atomic),

  epoch: views.epoch,
  signal: sync.signal,
  wait: sync.wait,
  reached: sync.reached,
  fence: sync.fence,
  quiet: engines.complete,
  barrier: sync.barrier,
  barriers: sync.barriers,
  'barrier.arrive': sync.arrive,
  'barrier.wait': sync.waitPhase,

  'cluster.meet': clusterMeet,
  assert: diagnostics.assert,
  print: diagnostics.print,

  meet: engines.meet,
  'fence.async': engines.fenceAsync,
  drain: engines.complete,
  'dot.wait': engines.dotWait,
  held: sync.held,
  'arrive.held': sync.arriveHeld,
  operands: staging.operands,
  staging: memory.shared,
  'staging.place': staging.place,
  stage: staging.stage,
  'store.box': staging.storeBox,
  ...opsWith({ place: 'start' }, start.ordered),
  'start.barriers': start.barriers,
  'start.aborted': start.aborted,
  'start.meet': start.meet,
  'words.post': words.post,
  'words.take': words.take,
  'advance.signal': words.advance,
  'advance.wait': words.advance,
}
