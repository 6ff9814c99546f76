/**
 * Renders GPU results as a Markdown page. It says how they were measured and which goals were missed, and has every
 * table.
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

export function pageOf({ machine, date, cells }: Results): string {
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
    since,
    explanations,
    '## On a node with several GPUs',
    'Use the same commands. With at least as many GPUs as ranks, each rank has its own GPU. Multi-GPU support is implemented but has not run on hardware yet. Strong scaling always divides the first GPU among the ranks, because it fixes the number of multiprocessors per rank.',
  ].join('\n\n')
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

const since = `## Changed since this run

These figures are from commit cc58b47. Three mechanisms that only single cells justified have been removed since, and the page has not been measured
again. Expect other figures in these cells:

| cell | removed mechanism | expected now |
|---|---|---|
| gemm M=16 N=28672 K=8192 | no programmatic dependent launch behind kernels with two programs per multiprocessor; hand-chosen tiles (16 x 128 x 64, 5 stages) | 117 to 119 us in a loop with those tiles (measured before the rule existed); goal of tier C lost |
| scaling gemm M=8, 1 rank; attention alone | the same launch rule | unknown |
| decode batch=1, 8K, 16K and 32K tokens per rank: \`bsp\`, \`fused\`, \`fused-coarse\` | hand-chosen tiles (one split per head) | up to 3 % slower: stream-K splits took 191.7 instead of 186.9 us at 16K (\`fused\`) and 367.6 instead of 365.0 us at 32K |

The start gate of GPU ranks now uses flags instead of a polling loop.`

const explanations = `## Explanations

- **All-Gather + GEMM, few rows.** Reading the weights takes 107 us at 4.38 TB/s, so the matrix unit is idle most of the time. Products of few rows are computed
  transposed, with the weights as the left operand of wgmma. Tensor maps request 128 bytes per L2 access; with 256 bytes, each box of 128 bytes caused
  1.5 times the L2 traffic (11.1 instead of 7.5 million sectors), and kernels reached 85 instead of 91 % of the peak bandwidth.
- **16 multiprocessors, M=8.** Occupancy decides: tiles of 8 x 128 x 64 in 6 stages let two programs share a multiprocessor and take 239 us. With 10 stages, only one
  program fits, and the product takes 392 us.
- **512 rows.** With tiles of 256 columns, 56 tiles on 16 multiprocessors take 3.5 waves. With 224 columns, 64 tiles take exactly four. This gains 2 % for \`pull\` and nothing
  for \`bsp\`.
- **Outboxes.** \`pull\` in place ends with a barrier of all ranks, so that A may be overwritten. That barrier costs 3 us at M=64 (117.1 us with it, 114.2 us without;
  the product alone takes 114.6 us). When ranks pull from outboxes, no barrier is needed.
- **Flash Decode, one sequence of 8K tokens per rank.** Attention alone takes 92.8 us behind a gate on this machine; it took 90.5 to 93.0 us on seven machines of this kind. \`bsp\`
  adds 12.1 us and \`fused\` 2.5 us. After the last tile has arrived, the product takes 0.7 us, the transfer of the partial result 1.6 us and the combination 1.0 us. Flag-in-data words
  save 0.8 us over separate flags and fences.
- **Flash Decode fetches partial results** (\`fetching\`) where ranks share one memory: each partial result is stored once instead of in eight inboxes. This saves
  0.5 us behind gates and 1.7 us in loops at 8K tokens.
- **Graphs on several ranks.** While a CUDA graph of eight ranks is pending, running kernels take 1.6 % longer (88 of 90 executions; 0 of 102 without a pending graph). Graphs are
  therefore measured in batches of their own. The cause is unknown.
- **Figures beyond a limit.** The limits use a bandwidth and a peak that were measured once. Long caches are read at up to 4.6 TB/s, and a few multiprocessors run at a
  higher clock than a whole GPU. _Recovered_ exceeds 100 % where a fused variant is faster than the fastest separate product, which has different tiles.
- **A launch** is one driver call plus JavaScript. The driver's part depends on the host: 3.0 to 4.4 us on six hosts, for launches of 3.3 to 4.9 us in total.
- **\`push\` of All-Gather + GEMM** signals one flag per tile and rank, each with a fence. On a GPU this costs more than the overlap gains.
- The kernels of this run were compiled ahead of time by nvcc 13.0, not by NVRTC.`

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
