/**
 * The table of all ops of the IR. To add an op, add its record to this table, and change the targets that handle it
 * specially.
 */
import { controlOps } from './control.ts'
import { diagnosticOps } from './diagnostics.ts'
import { inFlightOps } from './inflight.ts'
import { memoryOps } from './memory.ts'
import { fail, type Facts, type Op, type Unplaced } from './op.ts'
import { productOps } from './products.ts'
import { randomOps } from './random.ts'
import { stageOps } from './stages.ts'
import { stagingOps } from './staging.ts'
import { startOps } from './start.ts'
import { syncOps } from './sync.ts'
import { valueOps } from './values.ts'
import { viewOps } from './views.ts'
import type { Type } from '../type.ts'

const all = {
  ...valueOps,
  ...randomOps,
  ...viewOps,
  ...memoryOps,
  ...inFlightOps,
  ...syncOps,
  ...controlOps,
  ...diagnosticOps,
  ...stageOps,
  ...stagingOps,
  ...productOps,
  ...startOps,
}

export type OpName = keyof typeof all
export const ops: Readonly<Record<OpName, Op>> = all

/**
 * The names of the ops whose records have the given facts. TypeScript rejects a table that must have an entry for each
 * of the names and lacks one.
 */
export type OpWith<F extends Partial<Facts>> = {
  [Name in OpName]: (typeof all)[Name] extends F ? Name : never
}[OpName]

/** The float functions whose results may differ between targets. */
export type ApproximateName = {
  [Name in OpName]: (typeof all)[Name] extends { isApproximate: true } ? Name : never
}[OpName]

/**
 * The maximum errors of a target's float functions, in units in the last place (ULP) of the correctly rounded f32. A
 * maximum error holds for all inputs, including subnormal numbers.
 */
export type MaximumErrors = Readonly<Record<ApproximateName, number>>

export type ElementwiseName = OpWith<{ elements: 'same' }>
export type ReductionName = OpWith<{ elements: 'reduced' }>
export type GatheredName = OpWith<{ elements: 'gathered' }>
export type ViewName = OpWith<{ isView: true }>
export type AtomicName = OpWith<{ effect: 'write'; elements: 'other' }>
/** Ops that read or write memory. */
export type MemoryName = OpWith<{ effect: 'read' }> | OpWith<{ effect: 'write' }>
export type SyncName = OpWith<{ effect: 'sync' }>
export type ControlName = OpWith<{ effect: 'control' }>

/** Returns table entries that are the same for every op with the given facts. */
export function opsWith<const F extends Partial<Facts>, T>(facts: F, entry: T): Record<OpWith<F>, T> {
  const asked = Object.entries(facts)
  const found = Object.entries(ops).filter(([, op]) =>
    asked.every(([fact, answer]) => op[fact as keyof Facts] === answer),
  )
  return Object.fromEntries(found.map(([name]) => [name, entry])) as Record<OpWith<F>, T>
}

/**
 * Returns the table entry for a node's op. If the table has no entry for the op, the function throws an error with the
 * text `isNot`.
 */
export function entryOf<T>(
  table: Readonly<Partial<Record<OpName, T>>>,
  { op }: { readonly op: OpName },
  isNot = 'is an op without an entry in this table',
): T {
  const entry = table[op]
  if (entry === undefined) throw new Error(`${op} ${isNot}`)
  return entry
}

/** Returns the record of a node's op. The function throws an error if the op has no record. */
export function opOf({ op }: { readonly op: OpName }): Op {
  const record = (ops as Readonly<Record<string, Op | undefined>>)[op]
  if (!record) throw new Error(`${op} is no op: src/ir/ops has no record of it`)
  return record
}

const remedies = {
  global: 'the operand must be a tile or elements of a tensor',
  shared: 'copy the operand to a shared tile first',
} as const

/**
 * Returns the type of a node. The function throws a SpecError if the node is invalid, or accesses another memory level
 * than its op allows.
 */
export function inferType(op: OpName, node: Unplaced): Type {
  const { infer, accesses } = opOf({ op })
  const type = infer(node)
  for (const { at, level } of accesses) {
    const operand = node.inputs.at(at)?.type
    if (level === 'either' || operand?.kind !== 'ref' || operand.space === level) continue
    fail(`operand ${at + 1} lies in ${operand.space} memory: ${remedies[level]}`)
  }
  return type
}
