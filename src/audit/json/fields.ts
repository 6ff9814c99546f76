/** The event fields that the audit reads. All other fields are skipped unread. To read another field, add it here. */

import { hashOf, viewOf } from './words.ts'

/** Fields of the event object itself. */
export const Field = {
  phase: 0,
  category: 1,
  name: 2,
  process: 3,
  thread: 4,
  time: 5,
  duration: 6,
  args: 7,
} as const

/** Numeric fields in `args`. */
export const NumberField = {
  correlation: 0,
  externalId: 1,
  stream: 2,
  device: 3,
  bytes: 4,
  groupSize: 5,
  elementsIn: 6,
  elementsOut: 7,
  sequence: 8,
  source: 9,
  destination: 10,
  /** Only in traces that Arke wrote: the id of a communication record. */
  communication: 11,
} as const

/** Text fields in `args`. An array or a number is kept as its source text. */
export const TextField = {
  collective: 0,
  group: 1,
  groupDescription: 2,
  groupRanks: 3,
  communicator: 4,
  dtype: 5,
  library: 6,
  /** Only in traces that Arke wrote: the bytes that a kernel reads and writes. */
  traffic: 7,
} as const

/**
 * The operands of an operator, as source text. They are interned separately, so that many shapes do not displace names.
 */
export const OperandField = {
  shapes: 0,
  types: 1,
} as const

const SLOTS = 1 << 10

/** A hash table from keys to field numbers. */
export class Keys {
  private readonly bytes: Uint8Array[] = []
  private readonly fields: number[] = []
  private readonly hashes: number[] = []
  /**
   * `slots` holds the last key of each slot, and `before` the previous key in the same slot. Both count from 1; 0 means
   * none.
   */
  private readonly slots = new Uint8Array(SLOTS)
  private readonly before: number[] = []

  constructor(keys: Record<string, number>) {
    for (const [key, field] of Object.entries(keys)) {
      const bytes = new TextEncoder().encode(key)
      const hash = hashOf(viewOf(bytes), 0, bytes.length)
      this.hashes.push(hash)
      this.before.push(this.slots[hash & (SLOTS - 1)])
      this.fields.push(field)
      this.slots[hash & (SLOTS - 1)] = this.bytes.push(bytes)
    }
  }

  /** The field of the key between `from` and `to` with this hash, or -1. */
  find(data: Uint8Array, from: number, to: number, hash: number): number {
    for (let i = this.slots[hash & (SLOTS - 1)] - 1; i >= 0; i = this.before[i] - 1)
      if (this.hashes[i] === hash && this.is(this.bytes[i], data, from, to)) return this.fields[i]
    return -1
  }

  private is(bytes: Uint8Array, data: Uint8Array, from: number, to: number): boolean {
    if (to - from !== bytes.length) return false
    for (let i = 0; i < bytes.length; i++) if (bytes[i] !== data[from + i]) return false
    return true
  }
}

export const eventKeys = new Keys({
  ph: Field.phase,
  cat: Field.category,
  name: Field.name,
  pid: Field.process,
  tid: Field.thread,
  ts: Field.time,
  dur: Field.duration,
  args: Field.args,
})

/** In `argKeys`, text fields are numbered from `FIRST_TEXT` and operand fields from `FIRST_OPERAND`. */
export const FIRST_TEXT = 64
export const FIRST_OPERAND = 128

export const argKeys = new Keys({
  correlation: NumberField.correlation,
  'External id': NumberField.externalId,
  'external id': NumberField.externalId, // traces of 2021
  stream: NumberField.stream,
  device: NumberField.device,
  bytes: NumberField.bytes,
  'Group size': NumberField.groupSize,
  'In msg nelems': NumberField.elementsIn,
  'Out msg nelems': NumberField.elementsOut,
  'In msg size': NumberField.elementsIn,
  'Out msg size': NumberField.elementsOut,
  Seq: NumberField.sequence,
  'Src Rank': NumberField.source,
  'Dst Rank': NumberField.destination,
  communication: NumberField.communication,
  'Collective name': FIRST_TEXT + TextField.collective,
  'Process Group Name': FIRST_TEXT + TextField.group,
  'Process Group Description': FIRST_TEXT + TextField.groupDescription,
  'Process Group Ranks': FIRST_TEXT + TextField.groupRanks,
  'comms id': FIRST_TEXT + TextField.communicator,
  'Comms Id': FIRST_TEXT + TextField.communicator,
  dtype: FIRST_TEXT + TextField.dtype,
  library: FIRST_TEXT + TextField.library,
  traffic: FIRST_TEXT + TextField.traffic,
  'Input Dims': FIRST_OPERAND + OperandField.shapes,
  'Input dims': FIRST_OPERAND + OperandField.shapes, // traces of 2021
  'Input type': FIRST_OPERAND + OperandField.types,
})
