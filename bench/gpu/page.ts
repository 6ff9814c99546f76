/** Results as a page of Markdown: where and how they were measured, what is missed, every table. */
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
    '## Goals',
    ...Object.entries(tiers).map(([tier, meaning]) =>
      goals(
        tier,
        meaning,
        judgements.filter((judgement) => judgement.tier === tier),
      ),
    ),
    ...sections.map((table) => asMarkdown(table)),
    left,
    '## On a node with several GPUs',
    'The same command: where there are as many GPUs as ranks, each rank has one. Nobody has run that yet. Strong scaling says how many multiprocessors each rank has, so it always shares the first GPU out.',
  ].join('\n\n')
}

const how = (
  cells: readonly CellResult[],
): string => `Everything at one point is measured in turns in one process, in a random order every round, Python's libraries in a process that
takes turns with it. Tiles are those that are shipped for this device, which \`bench/gpu/tune.ts\` found at some of the shapes,
or the rule's. _(graph)_ is the same launches as one CUDA graph. Inputs are random and take turns over
more than 200 MB, or are larger; results are poisoned and compared with float64 before. Medians with 95 % intervals.

**Where ranks communicate every execution has a gate of its own** on the device. It opens when all ranks are there and all is enqueued,
nothing behind it begins before, and the execution ends with the last rank. To open a gate and to tell the time takes ${tellingOf(cells)} us, which is
measured as turns of nothing in the same rounds, and taken off. **In loops** (tables of their own) several executions follow each other behind one gate: there a
rank may be ahead of others. Ranks share one memory and do not get equal parts of it, which evens out over a loop of products alone; whatever
communicates must keep step in every execution. What one rank computes alone is measured in loops of ${turnsOf(cells)}, as its peers are, and nothing is taken off.

Ranks are **virtual**: they share one GPU's memory and second cache, each with 16 multiprocessors of its own, and no link lies between
them. Nothing here says whether pulling or pushing is better on real nodes. _bsp_ is the faster of ours and of our all-gather followed by
cuBLASLt, the fastest of its eight proposals for 16 multiprocessors, once and in a loop. The limit is the larger of bytes over 4.38 TB/s, which was
measured, and operations over 790 TFLOP/s, on the share of multiprocessors that ranks have.`

function tellingOf(cells: readonly CellResult[]): string {
  const found = cells.flatMap(({ telling }) => telling ?? []).map(Math.round)
  return found.length === 0 ? 'some tens of' : `${Math.min(...found)} to ${Math.max(...found)}`
}

/** Executions of a loop on one rank; those of a product always have six. */
function turnsOf(cells: readonly CellResult[]): string {
  const turns = cells.filter(({ section }) => section === 'attend').flatMap(({ turn }) => turn ?? [])
  return [...new Set([6, ...turns])].join(' or ')
}

const left = `## Where the rest goes

- **All-Gather + GEMM, M up to 128.** The weights alone take 107 us at 4.38 TB/s, and our product takes 107.5 under Nsight Compute,
  at 91 % of the memory's peak. Measured apart, on another machine of this kind, where a product takes 2 us less: four in a row, M=8,
  less one part of the kernel at a time: the product 111.6 us; reading A from
  inboxes instead of a gathered matrix 0.8 more; looking at the abort word and counting programs 1.0; sending 2.5; waiting for flags 1.3;
  \`fused\` 117. Since then programs are counted when they begin, beside the first copies, and those send that have the least to
  multiply: 115.7. Looking at all flags at once when the first is due cost 1.5 more than it saved (a fence for the whole system stops
  the thread that starts copies); starting the copies of weights before the launch ahead has ended brought nothing, with one
  program on a multiprocessor or two.
- **What made the difference for few rows** was one number: tensor maps asked for 256 bytes at once in the second cache, of which a
  box reads 128. Each half then came across from the other half of the cache twice: 11.1 instead of 7.5 million sectors, 85 instead of
  91 % of the memory's peak, in every kernel that copies tiles, attention included.
- **Products of few rows** are computed transposed, the weights as the left operand (wgmma with 8, 16, ... columns). On 16
  multiprocessors alone (strong scaling with one rank) tiles decide: 8 x 128 x 64 with 6 stages takes 125 GB/s a multiprocessor, cuBLASLt
  147; the tiles that the rule takes there, 70. M=16, N=28672 on the whole GPU is 448 tiles on 132 multiprocessors, 3.4 rounds.
- **Flash Decode, one sequence.** Its turns have two executions, since three launches of \`bsp\` are pending for each; so 12 us of the
  turn's start are in every figure, and in none of the floor, which is bytes over 4.38 TB/s. On that other machine attention alone takes
  104 us so, 99 four in a row; \`fused\` 111 and 106: it meets once. By this measure attention alone, without any communication, would
  recover 58 % there.
- **Below a limit.** Limits are what was measured once: long caches are read at up to 4.58 TB/s, and 790 TFLOP/s are those of a whole GPU
  at the clock that its power allows; fewer multiprocessors run faster. _Recovered_ is above 100 % where a fused variant is faster than
  the faster product alone, whose tiles it does not share.
- **A launch** costs 0.9 us more than the driver's call through the same foreign-function interface, 0.25 of it in JavaScript. The
  call itself took 5.2 us on the machine of this page, 3.9 to 4.9 on others of its kind.
- \`push\` of All-Gather + GEMM raises a flag for each tile and rank, with a fence each; on a GPU that costs more than it brings.`

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

const asMarkdown = ({ title, head, rows, notes }: Table): string =>
  [`## ${title}`, rowsOf(head, rows), ...notes.map((note) => `- ${note}`)].join('\n\n')
