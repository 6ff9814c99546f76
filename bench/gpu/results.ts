/**
 * Writes the page of results from the files that bench/gpu/run.ts wrote:
 *
 *   npx tsx bench/gpu/results.ts FILE.json...    stores them as docs/results/h200.json and writes docs/results-h200.md
 *   npx tsx bench/gpu/results.ts                 writes the page again
 *
 * The page ends with docs/results/notes-h200.md. If several files contain a cell, the last file's result counts. Results that are not in the last file are marked as
 * results of an earlier run.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { format } from 'prettier'
import { allLayouts, planCells } from './cells.ts'
import { pageOf } from './page.ts'
import { textOf, type Results } from './store.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const kept = here('../../docs/results/h200.json')
const given = process.argv.slice(2)
const read = (path: string): Results => JSON.parse(readFileSync(path, 'utf8')) as Results

const all = (given.length === 0 ? [kept] : given).map(read)
const { machine, date } = all[all.length - 1]
const found = new Map(
  all.flatMap(({ cells }, n) =>
    cells.map((cell) => [cell.key, n < all.length - 1 ? { ...cell, earlier: true } : cell] as const),
  ),
)
const planned = allLayouts().flatMap((layout) => planCells({ quick: false, layout }))
const keys = [...new Set(planned.map(({ key }) => key))]
const cells = keys.flatMap((key) => found.get(key) ?? [])
const results: Results = { machine, date, begun: {}, cells }
mkdirSync(here('../../docs/results'), { recursive: true })
writeFileSync(kept, textOf(results))
const notes = readFileSync(here('../../docs/results/notes-h200.md'), 'utf8')
const options = { parser: 'markdown', printWidth: 130 } as const
writeFileSync(here('../../docs/results-h200.md'), await format(pageOf(results, notes), options))
const missing = keys.filter((key) => !found.has(key) && !key.includes(' M M='))
if (missing.length > 0) console.log(`not measured: ${missing.join('; ')}`)
