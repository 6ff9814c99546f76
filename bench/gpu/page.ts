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
    // Of results that say how long their turns were it is no news.
    ...(cells.some(({ turn }) => turn !== undefined) ? [] : [longerTurns]),
    ...sections.map((table) => asMarkdown(table)),
    left,
    '## On a node with several GPUs',
    'The same command: where there are as many GPUs as ranks, each rank has one. Nobody has run that yet. Strong scaling says how many multiprocessors each rank has, so it always shares the first GPU out.',
  ].join('\n\n')
}

const how = (
  cells: readonly CellResult[],
): string => `Everything at one point is measured in turns in one process, in a random order every round, Python's libraries in a process that
takes turns with it. A turn begins at a gate on the device, when all ranks are there and all is enqueued, and ends with the last rank. It
is several executions one after the other, as a decoding loop has them (${turnsOf(cells)}), and their mean counts: to start kernels on eight streams and to tell the time takes the
device some tens of microseconds, once. Tiles are those that are shipped for this device, which \`bench/gpu/tune.ts\` found at some of the shapes,
or the rule's. _(graph)_ replays the launches of a turn as one CUDA graph, behind the same gate. Inputs are random and take turns over
more than 200 MB, or are larger; results are poisoned and compared with float64 before. Medians with 95 % intervals.

Ranks are **virtual**: they share one GPU's memory and second cache, each with 16 multiprocessors of its own, and no link lies between
them. Nothing here says whether pulling or pushing is better on real nodes. _bsp_ is the faster of ours and of our all-gather followed by
cuBLASLt, the fastest of its eight proposals for 16 multiprocessors. The limit is the larger of bytes over 4.38 TB/s, which was
measured, and operations over 790 TFLOP/s, on the share of multiprocessors that ranks have.`

/** Executions of a turn; results that do not say it are of a time when it was always so. */
function turnsOf(cells: readonly CellResult[]): string {
  const turns = cells.flatMap(({ turn }) => turn ?? [])
  return turns.length === 0
    ? '4 of All-Gather + GEMM up to M=1024, 2 of Flash Decode up to 4 GB of cache, 6 of a product alone'
    : `${Math.max(...turns)} of short ones, down to ${Math.min(...turns)} of the longest, 6 of a product alone`
}

const longerTurns = `## Longer turns

Measured after the tables of this page, with what was changed since (flags between ranks of one device have that device's scope; copies of
what no launch under way writes start before the launch ahead has ended; other tiles of attention), in turns of 16 executions, or of 8 from
350 us on, instead of 4 and 2. Raw results: [results/h200-longer-turns.json](results/h200-longer-turns.json). To start a turn and to
tell the time, 27 us, or some 60 for a graph, then is little of a figure, and what it hid shows. (At M=512 so many launches behind one gate made
the host wait for good, which ended the run; turns have at most 12 executions since.)

|                       | bsp | bsp, the faster graph | floor | best fused |   recovered |
| --------------------- | --: | --------------------: | ----: | ---------: | ----------: |
| gather bf16 K M=1     | 120 |                   116 |   104 |        110 |        51 % |
| gather bf16 K M=2     | 119 |                   116 |   105 |        110 |        52 % |
| gather bf16 K M=4     | 120 |                   117 |   105 |        116 |        10 % |
| gather bf16 K M=8     | 120 |                   117 |   105 |        115 |        15 % |
| gather bf16 K M=16    | 120 |                   118 |   106 |        117 |        13 % |
| gather bf16 K M=32    | 124 |                   121 |   108 |        115 |        43 % |
| gather bf16 K M=64    | 129 |                   127 |   112 |        117 |        63 % |
| gather bf16 K M=128   | 140 |                   138 |   117 |        125 |        59 % |
| gather bf16 K M=256   | 201 |                   196 |   178 |        180 |        85 % |
| decode batch=1 KV=8K  | 114 |                   111 |  91.9 |        101 |        55 % |
| decode batch=1 KV=16K | 208 |                   207 |   184 |        188 |        80 % |
| decode batch=1 KV=32K | 392 |                   399 |   368 |        366 | above 100 % |
| decode batch=4 KV=8K  | 380 |                   378 |   368 |        363 | above 100 % |

- In longer turns \`bsp\` of All-Gather + GEMM is faster as a graph, which four executions a turn did not show, and a product alone, whose
  ranks need not keep step, comes to 104 us: 4.5 TB/s, more than the 4.38 of the limits here. By this measure All-Gather + GEMM of few rows
  recovers about half, not 70 %. \`fused\` at M=4 to 16 has tiles of three stages, which were the fastest in turns of four; those
  of M=1 and 2 have six, and nobody has tried them there yet.
- Flash Decode recovers more than 70 % but for one sequence of 8K tokens a rank, where \`fused\` ends 4 us after attention alone would.
  \`bsp\` at 16K and 32K takes 204 and 381 us in even shares of the cache (\`splits: 0\`), measured apart, which are shipped since:
  that leaves 78 % at 16K.
- Attention of one rank on the whole GPU: 25.7 and 127.6 us, cuDNN 27.0 and 127.7: 1.05 and 1.00 times as fast.
- A launch, on three machines: 4.3, 4.6 and 4.9 us of the host, where the driver's call takes 3.4, 4.0 and 4.2 if the launch may start early, and
  0.6 more if not.`

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
