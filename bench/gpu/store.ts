/**
 * The file of results: written before and after every cell, read at the start, so that a run goes on where the last one ended. A
 * cell that was begun twice and never ended is left out from then on: it takes the device with it.
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { CellResult } from './cells.ts'

export interface Results<Result = CellResult> {
  readonly machine: Readonly<Record<string, string | number>>
  readonly date: string
  /** How often a cell was begun that has no result. */
  readonly begun: Readonly<Record<string, number>>
  readonly cells: readonly Result[]
}

const mostBegun = 2

export class Store<Result extends { readonly key: string } = CellResult> {
  readonly #path: string
  #results: Results<Result>

  /** What is in the file is kept where it was measured on a device of the same name. */
  constructor(path: string, machine: Results['machine'], date: string) {
    this.#path = path
    const found = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Results<Result>) : undefined
    if (found && found.machine.device !== machine.device)
      throw new Error(`${path} holds results of ${found.machine.device}, and here is ${machine.device}`)
    this.#results = found ?? { machine, date, begun: {}, cells: [] }
  }

  get results(): Results<Result> {
    return this.#results
  }

  has(key: string): boolean {
    return this.#results.cells.some((cell) => cell.key === key)
  }

  /** Whether it was tried often enough without a result. */
  isGivenUp(key: string): boolean {
    return (this.#results.begun[key] ?? 0) >= mostBegun
  }

  begin(key: string): void {
    const { begun } = this.#results
    this.#results = { ...this.#results, begun: { ...begun, [key]: (begun[key] ?? 0) + 1 } }
    this.#write()
  }

  /** In place of what was found before. */
  add(cell: Result): void {
    const others = this.#results.cells.filter(({ key }) => key !== cell.key)
    const { [cell.key]: _, ...begun } = this.#results.begun
    this.#results = { ...this.#results, begun, cells: [...others, cell] }
    this.#write()
  }

  #write(): void {
    mkdirSync(dirname(this.#path), { recursive: true })
    // A run that is ended while it writes leaves the file as it was.
    writeFileSync(`${this.#path}.part`, textOf(this.#results))
    renameSync(`${this.#path}.part`, this.#path)
  }
}

/** One line a cell. */
export const textOf = ({ cells, ...about }: Results<unknown>): string =>
  `${JSON.stringify(about).slice(0, -1)},"cells":[\n${cells.map((cell) => JSON.stringify(cell, shortNumber)).join(',\n')}\n]}\n`

/** Nothing here is known to more than six digits, but extents are whole. */
const shortNumber = (_: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value
