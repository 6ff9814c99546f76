/**
 * Renders GPU results as a Markdown page. It says how they were measured and which goals were missed, and has every
 * table. Notes by hand follow the tables.
 */
import { sectionNames, type CellResult } from './cells.ts'
import { judge, type Judgement } from './goals.ts'
import type { Results } from './store.ts'
import { tablesOf, type Table } from './tables.ts'

const tiers = {
  A: 'must be reached',
  B: 'should be reached',
  C: 'is aimed at',
} as const

/** `notes` is Markdown about these results, such as explanations. */
export function pageOf({ machine, date, cells }: Results, notes = ''): string {
  const earlier = cells.filter((cell) => cell.earlier).map(({ key }) => key)
  const judgements = judge(cells)
  const sections = sectionNames.flatMap((section) =>
    tablesOf(
      section,
      cells.filter((cell) => cell.section === section),
    ),
  )
  const peers = [...new Set(cells.flatMap(({ section, notes = [] }) => (section === 'launch' ? notes : [])))]
  return [
    `# Measured on one ${machine.device}`,
    `${date}, driver for CUDA ${Math.floor(Number(machine.driver) / 1000)}.${(Number(machine.driver) % 1000) / 10}, Node ${machine.node}${peers.map((peer) => `, ${peer}`).join('')}. Raw results: [results/h200.json](results/h200.json).`,
    '```sh\nnpx tsx bench/gpu/verify.ts                       # right results first\nnpx tsx bench/gpu/run.ts --json bench-gpu.json     # all of it; --only gather,decode and --quick for less\nnpx tsx bench/gpu/results.ts bench-gpu.json        # this page\n```',
    how(cells),
    ...(earlier.length > 0
      ? ['\\* Measured in an earlier run, on another machine of this kind, with the kernels of that commit.']
      : []),
    '## Goals',
    ...Object.entries(tiers).map(([tier, meaning]) =>
      goals(
        tier,
        meaning,
        judgements.filter((judgement) => judgement.tier === tier),
      ),
    ),
    ...sections.map((table) => asMarkdown(marked(table, earlier))),
    notes.trim(),
    '## On a node with several GPUs',
    'Use the same commands. With at least as many GPUs as ranks, each rank has its own GPU. Multi-GPU support is implemented but has not run on hardware yet. Strong scaling always divides the first GPU among the ranks, because it fixes the number of multiprocessors per rank.',
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

const how = (
  cells: readonly CellResult[],
): string => `All variants of a point run interleaved in one process, in a new random order in every round. Python peers run in a second process that
alternates with it. Tiles come from the shipped table for this device (\`bench/gpu/tune.ts\` found them at some of the shapes) or from the
default rule. _(graph)_ marks the same launches replayed as one CUDA graph. Inputs are random and rotate over more than 200 MB. Outputs are
poisoned and compared with a float64 reference before timing. Figures are medians with 95 % intervals.${inRounds(cells)}

**Every execution that communicates starts behind its own start gate** on the device. The gate opens when all ranks have arrived and all work is
enqueued. The execution ends with the last rank. Arke's first kernel behind a gate uses programmatic dependent launch: it starts while the
gate is closed, but accesses no memory before the gate opens. Kernels of cuBLASLt are launched normally and start about 1.7 us later. Opening
a gate and recording the time takes ${tellingOf(cells)} us. This cost is measured with empty executions in the same rounds and subtracted.

**In loops** (separate tables), several executions follow each other behind one gate, so a rank may run ahead of the others. Ranks that
share one memory get unequal shares of its bandwidth. A loop of independent products evens this out; executions that communicate must keep
in step. Work of a single rank is measured in loops of ${turnsOf(cells)}, like its peers, and nothing is subtracted.

Ranks are **virtual**: each has 16 multiprocessors of one GPU. They share its memory and its L2 cache, and there is no link between them.
These figures say nothing about push versus pull on a real node. _bsp_ is the faster of two baselines: Arke's own, and Arke's
all-gather followed by cuBLASLt (the fastest of its eight proposed algorithms for 16 multiprocessors, as launches and in a loop). The limit is the larger
of bytes divided by 4.38 TB/s (measured) and operations divided by 790 TFLOP/s, scaled to the multiprocessors in use.`

const inRounds = (cells: readonly CellResult[]): string =>
  cells.some(({ speedup }) => speedup !== undefined)
    ? ' _bsp / fused_ is computed per round, in which both ran. If its interval contained 1, or the ratio was within 0.01 of 1, the two fastest variants were measured again on their own, and that ratio is shown.'
    : ''

function tellingOf(cells: readonly CellResult[]): string {
  const found = cells.flatMap(({ telling }) => telling ?? []).map(Math.round)
  return found.length === 0 ? 'some tens of' : `${Math.min(...found)} to ${Math.max(...found)}`
}

/** The numbers of executions per loop that occur on one rank. Loops of products always have six executions. */
function turnsOf(cells: readonly CellResult[]): string {
  const turns = cells.filter(({ section }) => section === 'attend').flatMap(({ turn }) => turn ?? [])
  return [...new Set([6, ...turns])].join(' or ')
}

function goals(tier: string, meaning: string, judgements: readonly Judgement[]): string {
  const missed = judgements.filter(({ isReached }) => !isReached)
  const head = `**Tier ${tier}** (${meaning}): ${judgements.length - missed.length} of ${judgements.length} reached.`
  if (missed.length === 0) return head
  const rows = missed.map(({ what, goal, found }) => [what, goal, found])
  return `${head} Missed:\n\n${rowsOf(['', 'goal', 'found'], rows)}`
}

const rowsOf = (head: readonly string[], rows: readonly (readonly string[])[]): string =>
  [head, head.map((_, n) => (n === 0 ? '---' : '---:')), ...rows]
    .map((row) => `| ${row.join(' | ')} |`)
    .join('\n')

/** Marks the cells that are from an earlier run with a star. */
const marked = (table: Table, earlier: readonly string[]): Table => ({
  ...table,
  rows: table.rows.map(([name, ...rest]) => [
    earlier.some((key) => name === key || name.startsWith(`${key}, `)) ? `${name} \\*` : name,
    ...rest,
  ]),
})

const asMarkdown = ({ title, head, rows, notes }: Table): string =>
  [`## ${title}`, rowsOf(head, rows), ...notes.map((note) => `- ${note}`)].join('\n\n')
