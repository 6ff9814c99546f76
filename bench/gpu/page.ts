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
device some tens of microseconds, once. Tiles are those that are shipped for this device, which \`bench/gpu/tune.ts\` found at some of the shapes,
or the rule's. _(graph)_ replays the launches of a turn as one CUDA graph, behind the same gate. Inputs are random and take turns over
more than 200 MB, or are larger; results are poisoned and compared with float64 before. Medians with 95 % intervals.

Ranks are **virtual**: they share one GPU's memory and second cache, each with 16 multiprocessors of its own, and no link lies between
them. Nothing here says whether pulling or pushing is better on real nodes. _bsp_ is the faster of ours and of our all-gather followed by
cuBLASLt, the fastest of its eight proposals for 16 multiprocessors. The limit is the larger of bytes over 4.38 TB/s, which was
measured, and operations over 790 TFLOP/s, on the share of multiprocessors that ranks have.`

const left = `## Where the rest goes

- **All-Gather + GEMM, M up to 128.** The weights alone take 107 us at 4.38 TB/s. One more product in a row takes ours 110 us and
  \`fused\` 118; a turn of four adds about 30 us once, for eight streams to start and to tell the time. Of the 8 us, reading and
  advancing epochs and counting programs out take 2 to 3, and the rest is that ranks hear from each other in every launch, so that
  their last tiles and first bytes fall together, where products alone drift apart and fill each other's gaps. \`bsp\` loses little
  more: launches overlap for it, too, and its all-gather takes 14 us. Bringing the first tiles into the second cache before the
  launch ahead had ended made everything slower, by the time it takes to read them twice.
- **Products of few rows** on 16 multiprocessors alone (strong scaling with one rank) wait for their own loads: a warp has one slot of a
  ring in hand, 60 to 130 GB/s for a multiprocessor by tiles, where cuBLASLt takes 147. With eight ranks memory is the limit.
- **Flash Decode.** One more attention in a row takes 96 to 98 us where bytes over bandwidth take 92, and \`fused\` 105: it meets once.
  Its turns have two executions, since three launches of \`bsp\` are pending for each; so 12 us of the turn's start are in every
  figure, and in none of the floor. With many (batch, kv head) a partial result goes to one owner, which took 35 us off 1577.
- **A launch** costs 0.7 to 0.9 us more than the driver's call through the same foreign-function interface, 0.25 of it in JavaScript.
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
