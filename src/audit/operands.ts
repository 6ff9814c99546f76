/**
 * Parses the operands of operators from the texts that a trace writes: shapes such as `[[4096, 1024], [], [[4, 8], [4,
 * 8]]]` and types such as `["c10::BFloat16", "Scalar", "TensorList"]`. A list of tensors is flattened into its tensors,
 * each with the type of the list. Operator calls with the same operand texts share one record. After `LIMIT` distinct
 * records, operator calls with new operand texts get no record.
 */
import type { RankBuilder } from '../timeline/builder.ts'
import { NONE, type Operands } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'
import { IntegerMap } from './integerMap.ts'
import type { TraceEvent } from './json/event.ts'
import { OTHER } from './json/strings.ts'

/**
 * The largest number of distinct operand records per rank. A training step has hundreds of distinct operand records; a
 * server whose shapes change all the time has far more.
 */
const LIMIT = 1 << 16
/** An upper bound on the number of distinct texts, used to combine two text ids into one key. */
const TEXTS = 2 ** 24
const MALFORMED = -2

export class OperandRecords {
  private readonly records = new IntegerMap()
  /**
   * Parsed types, keyed by text id. Operator calls that differ only in the shapes of their operands have equal type
   * texts, so each text is parsed once.
   */
  private readonly types = new Map<number, readonly string[] | null>()
  private readonly rank: RankBuilder
  private readonly warnings: Warnings

  constructor(rank: RankBuilder, warnings: Warnings) {
    this.rank = rank
    this.warnings = warnings
  }

  /** Attaches the operands of the trace event `event` to the rank's event `added`. */
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
      () => 'the trace has too many distinct operand shapes; the rest are left out',
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

/** Parses the text of the shapes, and returns null if the text is malformed. */
export function operandsOf(text: string, types: readonly string[]): Operands | null {
  const parsed = parse(text)
  if (!Array.isArray(parsed)) return null
  const shapes: (readonly number[])[] = []
  const flat: string[] = []
  for (let i = 0; i < parsed.length; i++) {
    if (!flatten(parsed[i], shapes)) return null
    while (flat.length < shapes.length) flat.push(types[i] ?? '')
  }
  // All calls with the same types share one array of types, unless a list was flattened.
  const same = flat.length === types.length && parsed.length === shapes.length
  return { shapes, types: same ? types : flat }
}

function typesOf(text: string): readonly string[] | null {
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

/** Adds the shapes of one operand's tensors. Returns false if the operand is malformed. */
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
