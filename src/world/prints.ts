/** Formats the lines that kernels print with `t.print`, and passes them to the host program. */
import { dtypes, type DType } from '../ir/dtype.ts'
import { attribute, type Node } from '../ir/node.ts'

/** A value that a program printed. */
export interface PrintedValue {
  readonly dtype: DType
  readonly shape: readonly number[]
  /** The first elements of a printed fragment, in row-major order. */
  readonly elements: readonly number[]
}

/** A line that a program printed with `t.print`. */
export interface Printed {
  /** The printed line as text: source line, rank and program, label and values. */
  readonly message: string
  readonly rank: number
  readonly program: number
  readonly kernel: string
  /** The position of the `t.print` in the author's source. */
  readonly site: string | undefined
  readonly label: string
  readonly values: readonly PrintedValue[]
}

/** The number of lines that a rank printed beyond the capacity of its print buffer. */
export interface DroppedPrints {
  readonly message: string
  readonly rank: number
  readonly kernel: string
  readonly dropped: number
}

export type OnPrint = (printed: Printed | DroppedPrints) => void

/** The default handling of a printed line, if the world was opened without `onPrint`. */
export const reportPrint: OnPrint = ({ message }) => console.warn(message)

/** Builds the printed line of a `print` node from the numbers in the print buffer. */
export function printed(
  node: Node,
  kernel: string,
  rank: number,
  program: number,
  numbers: readonly number[],
): Printed {
  const [dtypes, shapes, counts] = ['dtypes', 'shapes', 'counts'].map((name) =>
    attribute<readonly (string | number)[]>(node, name),
  )
  let at = 0
  const values = counts.map((count, i): PrintedValue => {
    const shape = shapes[i] === '' ? [] : String(shapes[i]).split('x').map(Number)
    return { dtype: dtypes[i] as DType, shape, elements: numbers.slice(at, (at += count as number)) }
  })
  const label = attribute<string>(node, 'label')
  const site = node.site?.toString()
  const shown = [label, ...values.map(textOf)].join(' ')
  const message = `${site ?? '(unknown line)'}  rank ${rank}, program ${program} of ${kernel}: ${shown}`
  return { message, rank, program, kernel, site, label, values }
}

export function droppedPrints(kernel: string, rank: number, dropped: number): DroppedPrints {
  const message = `rank ${rank}, ${kernel}: ${dropped} more lines were printed than the buffer holds; synchronize more often, or print less`
  return { message, rank, kernel, dropped }
}

function textOf({ dtype, shape, elements }: PrintedValue): string {
  const texts = elements.map((element) => numberText(dtype, element))
  if (shape.length === 0) return texts[0]
  const all = shape.reduce((product, extent) => product * extent, 1)
  return `[${[...texts, ...(all > texts.length ? ['…'] : [])].join(', ')}]`
}

/** Formats a number as the shortest decimal that identifies it. */
function numberText(dtype: DType, value: number): string {
  if (dtype === 'bool') return value ? 'true' : 'false'
  if (Object.is(value, -0) && dtypes[dtype].kind === 'float') return '-0'
  if (!Number.isFinite(value) || Number.isInteger(value)) return String(value)
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return String(short)
  }
  return String(Number(value.toPrecision(9)))
}

/**
 * Sorts printed lines by rank, then by program; the lines of one program stay in the order in which it printed them.
 */
export const inOrder = (lines: readonly Printed[]): Printed[] =>
  [...lines].sort((a, b) => a.rank - b.rank || a.program - b.program)
