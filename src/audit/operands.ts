/**
 * What operators were called with, from the texts that a trace writes: `[[4096, 1024], [], [[4, 8], [4, 8]]]` beside
 * `["c10::BFloat16", "Scalar", "TensorList"]`. A list of tensors becomes its tensors, each with the type of the list.
 * Calls with the same texts share a record, which is made once; past the limit of distinct ones the rest have none.
 */
import type { RankBuilder } from '../timeline/builder.ts'
import { NONE, type Operands } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'
import { IntegerMap } from './integerMap.ts'
import type { TraceEvent } from './json/event.ts'
import { OTHER } from './json/strings.ts'

/** Of distinct records in one rank; a training step has hundreds, a server with ever new shapes has many. */
const LIMIT = 1 << 16
/** More than there are distinct texts. */
const TEXTS = 2 ** 24
const MALFORMED = -2

export class OperandRecords {
  private readonly records = new IntegerMap()
  /** By text: calls that differ in their shapes have the same types. */
  private readonly types = new Map<number, readonly string[] | null>()
  private readonly rank: RankBuilder
  private readonly warnings: Warnings

  constructor(rank: RankBuilder, warnings: Warnings) {
    this.rank = rank
    this.warnings = warnings
  }

  /** Gives the rank's event `added` the operands that `event` has. */
  set(added: number, event: TraceEvent): void {
    if (event.shapes < 0) return
    if (event.shapes === OTHER || event.types === OTHER) return this.tooMany()
    const key = event.shapes * TEXTS + event.types + 1
    let record = this.records.get(key)
    if (record === NONE) {
      if (this.records.size >= LIMIT) return this.tooMany()
      const operands = this.read(event)
      record = operands ? this.rank.addOperands(operands) : MALFORMED
      this.records.set(key, record)
    }
    if (record !== MALFORMED) this.rank.setOperands(added, record)
  }

  private tooMany(): void {
    this.warnings.add(
      'too-large',
      () => 'there are too many distinct shapes of operands; the rest are left out',
    )
  }

  private read({ shapes, types, operandTexts }: TraceEvent): Operands | null {
    let known = types < 0 ? [] : this.types.get(types)
    if (known === undefined) {
      known = typesOf(operandTexts.text(types))
      this.types.set(types, known)
    }
    return known && operandsOf(operandTexts.text(shapes), known)
  }
}

/** What the text of shapes says, or null where it is malformed. */
export function operandsOf(text: string, types: readonly string[]): Operands | null {
  const parsed = parse(text)
  if (!Array.isArray(parsed)) return null
  const shapes: (readonly number[])[] = []
  const flat: string[] = []
  for (let i = 0; i < parsed.length; i++) {
    if (!flatten(parsed[i], shapes)) return null
    while (flat.length < shapes.length) flat.push(types[i] ?? '')
  }
  // The same array for all calls with these types, where no list was flattened.
  const same = flat.length === types.length && parsed.length === shapes.length
  return { shapes, types: same ? types : flat }
}

export function typesOf(text: string): readonly string[] | null {
  const parsed = parse(text)
  if (!Array.isArray(parsed)) return null
  return parsed.map((type) => (typeof type === 'string' ? type : ''))
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const scalar: readonly number[] = []
const isExtent = (value: unknown): boolean => Number.isSafeInteger(value) && (value as number) >= 0

/** Adds the tensors of one operand; false where it is none. */
function flatten(operand: unknown, shapes: (readonly number[])[]): boolean {
  if (!Array.isArray(operand)) return false
  if (operand.length === 0) {
    shapes.push(scalar)
    return true
  }
  if (operand.every(isExtent)) {
    shapes.push(operand as number[])
    return true
  }
  return operand.every((one) => flatten(one, shapes))
}
