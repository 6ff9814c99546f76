/** Results as a page of Markdown: where and how they were measured, what is missed, every table. */
import { sectionNames } from './cells.ts'
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
    how,
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

const how = `Everything at one point is measured in turns in one process, in a random order every round, Python's libraries in a process that
takes turns with it. A turn begins at a gate on the device, when all ranks are there and all is enqueued, and ends with the last rank. It
is several executions one after the other, as a decoding loop has them (4 of All-Gather + GEMM up to M=1024, 2 of Flash Decode up
to 4 GB of cache, 6 of a product alone), and their mean counts: to start kernels on eight streams and to tell the time takes the
device some tens of microseconds, once. Tiles are those of the rule; what \`bench/gpu/tune.ts\` found since is at most 1 % faster. _(graph)_ replays the launches of a turn as one CUDA graph, behind the same gate. Inputs are random and take turns over more than 200 MB, or
are larger; results are poisoned and compared with float64 before. Medians with 95 % intervals.

Ranks are **virtual**: they share one GPU's memory and second cache, each with 16 multiprocessors of its own, and no link lies between
them. Nothing here says whether pulling or pushing is better on real nodes. _bsp_ is the faster of ours and of our all-gather followed by
cuBLASLt, the fastest of its eight proposals for 16 multiprocessors. The limit is the larger of bytes over 4.38 TB/s, which was
measured, and operations over 790 TFLOP/s, on the share of multiprocessors that ranks have.`

const left = `## Where the rest goes

- **All-Gather + GEMM, M up to 128.** The weights alone take 107 us at 4.38 TB/s, cuBLASLt 113 to 125, \`pull\` 132 to 144. Of the 19
  us, 8 to 11 are communication: a rank says that its A is ready and, at the end, that it has read all it needs, which the last rank
  answers for; on eight streams of one GPU a dependent launch takes about as long, so that an all-gather kernel costs \`bsp\` no more
  than 20 us. The other 8 are the product: with few rows a multiprocessor's matrix path takes about 60 GB/s, cuBLASLt's 147 (the cells
  of strong scaling with one rank show it), and where tiles are no multiple of multiprocessors nobody can make up for the last ones.
- **Flash Decode.** \`fused\` is 20 us faster than \`bsp\` at any length: two launches and two meetings less. The floor it is compared
  with, bytes over bandwidth, is 30 us away from the attention alone, without any communication. With many (batch, head)
  tiles a multiprocessor stops reading for a few microseconds after each one, until its partial result has been put into eight
  inboxes; \`bsp\` puts them in parallel afterwards.
- **A launch** costs 0.7 us more than the driver's call through the same foreign-function interface.
- \`push\` and \`fused\` of All-Gather + GEMM raise a flag for each tile and rank, with a fence each; on a GPU that costs more than it
  brings, and \`auto\` does not take them there.`

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
