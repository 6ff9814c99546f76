/**
 * Renders GPU results as a Markdown page. The page says how the results were measured and which performance goals were
 * missed, and contains every table. Handwritten notes follow the tables.
 */
import { sectionNames, withLibraries, type CellResult } from './cells.ts'
import { judge, type Judgement } from './goals.ts'
import type { Results } from './store.ts'
import { tablesOf, type Table } from './tables.ts'

const tiers = {
  A: 'required',
  B: 'expected',
  C: 'desirable',
} as const

/** The argument `notes` is Markdown about the results, such as explanations. */
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
    '```sh\nnpx tsx bench/gpu/verify.ts                       # first checks that results are correct\nnpx tsx bench/gpu/run.ts --json bench-gpu.json     # all measurements; --only gather,decode or --quick for fewer\nnpx tsx bench/gpu/results.ts bench-gpu.json        # writes this page\n```',
    how(cells),
    ...(earlier.length > 0
      ? [
          '\\* The starred rows were measured in an earlier run, on another machine of this kind, with an earlier commit.',
        ]
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
    'On a node with several GPUs, use the same commands. With at least as many GPUs as ranks, each rank has its own GPU. Multi-GPU support is implemented but has not run on hardware yet. The benchmark of strong scaling always divides the first GPU among the ranks, because it fixes the number of multiprocessors per rank.',
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

const how = (
  cells: readonly CellResult[],
): string => `All variants of a point run interleaved in one process, in a new random order in every round. Python peers (PyTorch, Triton) run in a second process
that takes turns with the process of Arke. Tile sizes come from the table that Arke ships for this device (\`bench/gpu/tune.ts\` measured them at some of the shapes) or from
a default rule. The suffix _(graph)_ marks the same launches replayed as one CUDA graph. Input data is random and rotates over more than 200 MB. Outputs are
poisoned and compared with a float64 reference before timing. Figures are medians with 95 % intervals.${inRounds(cells)}

**Every timed execution that communicates starts behind its own start gate**, a small kernel on the device. The start gate opens when all ranks have arrived and all work is
enqueued. A timed execution ends when its last rank ends. Arke's first kernel behind a gate uses programmatic dependent launch: it starts while the
gate is closed, but accesses no memory before the gate opens. Kernels of cuBLASLt are launched normally and start about 1.7 us later than a kernel with programmatic
dependent launch. Opening a gate and recording the time takes ${tellingOf(cells)} us. The benchmark measures the cost of the gate with empty executions in the same rounds and
subtracts it.

**In loops** (separate tables), several executions follow each other behind one gate, so a rank may run ahead of the others. Ranks that
share one memory get unequal shares of its bandwidth. In a loop of independent matrix products, the unequal shares of the bandwidth even out; executions that
communicate must keep in step. Work of a single rank, of Arke as of its peers, is measured in loops of ${turnsOf(cells)} executions, and no gate cost is subtracted.

Ranks are **virtual**: each has 16 multiprocessors of one GPU. Virtual ranks share the GPU's memory and its L2 cache, and there is no link between them.
The times of virtual ranks say nothing about push versus pull on a real node. _bsp_ is the faster of two baselines: Arke's own, and Arke's
all-gather followed by cuBLASLt (the fastest of its eight proposed algorithms for 16 multiprocessors, as launches and in a loop). The column _limit_ is the larger
of bytes divided by 4.38 TB/s (measured) and operations divided by 790 TFLOP/s, scaled to the multiprocessors in use.`

const inRounds = (cells: readonly CellResult[]): string =>
  cells.some(({ speedup }) => speedup !== undefined)
    ? ' The ratio _bsp / fused_ is computed per round in which both variants ran. If the interval of this ratio contained 1, or the ratio was within 0.01 of 1, the two fastest variants were measured again on their own, and the table shows the ratio of the second measurement.'
    : ''

function tellingOf(cells: readonly CellResult[]): string {
  const found = cells.flatMap(({ telling }) => telling ?? []).map(Math.round)
  return found.length === 0 ? 'some tens of' : `${Math.min(...found)} to ${Math.max(...found)}`
}

/**
 * The numbers of executions per loop that occur in measurements on one rank. Loops of matrix products always have six
 * executions.
 */
function turnsOf(cells: readonly CellResult[]): string {
  const sections = withLibraries.map(({ libraries }) => libraries.section)
  const turns = cells.filter(({ section }) => sections.includes(section)).flatMap(({ turn }) => turn ?? [])
  return [...new Set([6, ...turns])].join(' or ')
}

function goals(tier: string, meaning: string, judgements: readonly Judgement[]): string {
  const missed = judgements.filter(({ isReached }) => !isReached)
  const head = `**Performance goals of tier ${tier}** (${meaning}): ${judgements.length - missed.length} of ${judgements.length} goals were reached.`
  if (missed.length === 0) return head
  const rows = missed.map(({ what, goal, found }) => [what, goal, found])
  return `${head} The following goals were missed:\n\n${rowsOf(['', 'goal', 'found'], rows)}`
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
