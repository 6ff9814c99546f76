/**
 * The event fields that the audit reads. All other fields of an event are skipped unread. To read another event field,
 * add it to this file.
 */

import { hashOf, viewOf } from './words.ts'

/** The fields of the event object itself. */
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

/** The numeric fields in the event's `args`. */
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
  /** The id of a communication record, which only traces written by Arke have. */
  communication: 11,
} as const

/** The text fields in the event's `args`. If a text field holds an array or a number, its source text is kept. */
export const TextField = {
  collective: 0,
  group: 1,
  groupDescription: 2,
  groupRanks: 3,
  communicator: 4,
  dtype: 5,
  library: 6,
  /** The bytes that a kernel reads and writes, which only traces written by Arke have. */
  traffic: 7,
} as const

/**
 * The operands of an operator, as source text. Operand texts are interned separately from names, so that many distinct
 * shapes do not displace names.
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
   * For each slot of the hash table, `slots` holds its last key. For each key, `before` holds the previous key of its
   * slot. The numbers in `slots` and `before` count from 1, and 0 means no key.
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

  /** The field whose key has the given hash and equals the bytes between `from` and `to`, or -1 if there is none. */
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
