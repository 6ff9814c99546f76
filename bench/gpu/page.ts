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

- **All-Gather + GEMM, few rows.** The weights alone take 107 us at 4.38 TB/s. Behind a gate the best fused variant takes one to four us more than the product
  alone. In loops **keeping step** is what is left: measured on another machine of this kind, M=8, with the same tiles, in one process, the product alone
  took 110.8 us; in the order of shards, own shard first, from inboxes 112.4; sending as well 112.4; waiting for the shards of the launch
  before 111.8; waiting for those of this launch 114.9. Ranks that share a memory do not end together: one gets 10 to 20 % more of it than the others from
  the third launch on. Shards are therefore taken as they arrive, and idle warps send. Early copies of weights (\`ARKE_STRANDS=1\`), two programs on a
  multiprocessor, of which one starts while the other ends, and weights that leave the second cache first gained nothing, or lost.
- **What made the difference for few rows** was one number: tensor maps asked for 256 bytes at once in the second cache, of which a
  box reads 128. Each half then came across from the other half of the cache twice: 11.1 instead of 7.5 million sectors, 85 instead of
  91 % of the memory's peak, in every kernel that copies tiles, attention included.
- **Products of few rows** are computed transposed, the weights as the left operand (wgmma with 8, 16, ... columns). On 16
  multiprocessors alone (strong scaling with one rank) tiles decide: 8 x 128 x 64 with 6 stages takes 125 GB/s a multiprocessor, cuBLASLt
  147; the tiles that the rule takes there, 70. M=16, N=28672 on the whole GPU is 448 tiles on 132 multiprocessors, 3.4 rounds.
- **512 rows.** Tiles of 256 columns are 56 for 16 multiprocessors, 3.5 rounds; of 224 columns they are 64, four full ones. That is an eighth less work
  for the last to end, and gains 2 % for \`pull\` and nothing for \`bsp\`; presumably power, not the number of multiprocessors at work, is the limit.
- **Flash Decode, one sequence of 8K tokens a rank.** Attention alone takes 98.9 us behind a gate: 7 more than its bytes over 4.38 TB/s, to start and to end,
  which is 36 % of what \`bsp\` takes more than that. So even without any communication no more than 64 % could be recovered. By leaving
  parts out, on another machine and where copies could begin before the gate opened (all figures are some 6 us less): attention 92.7 us; it and sending
  95.6; it and combining, without sending or waiting, 96.9; all of it 98.2 to 99.4, of which combining as one sum of weighed parts, fewer bounds and
  unrolled stores have since taken off 1.3. Partial results that carry their epoch with every word, so that no flag and no fence is needed, took 98.2 where flags took
  96.7, and 108 instead of 98.5 in a loop: all threads poll, while others still read their cache.
- **Flash Decode, longer sequences.** \`fused\` has one part for each of 12 heads, on 16 multiprocessors; attention of \`bsp\` has even shares on all of them.
  That was the faster choice for both in loops of eight, where it was tuned on another machine; behind a gate it costs \`fused\` 13 us at 16K, and 40 at
  64K, of which about 6 are its meeting. In even shares \`fused\` must send twice and combine twice as many parts. It was not tuned behind gates yet. From 256K tokens on, all
  that differs between variants is less than what their turns make of it: attention alone is not measured as faster than \`bsp\`, which contains it. In this run the random orders
  were the same in every cell, and in 17 rounds \`attention\` had the eighth of 12 places on average, \`bsp\` between the fifth and the sixth; since then every second round
  goes backwards, and orders differ.
- **Attention of one rank, 131072 tokens.** \`fused\` took 127.7 us when it had 178 registers a thread, on another machine; it has 116 since bounds are fewer, so that two programs
  fit a multiprocessor and 264 run instead of 132. It takes 134 now, and 160 in a graph. That this is why is presumed.
- **Below a limit.** Limits are what was measured once: long caches are read at up to 4.58 TB/s, and 790 TFLOP/s are those of a whole GPU
  at the clock that its power allows; fewer multiprocessors run faster. _Recovered_ is above 100 % where a fused variant is faster than
  the faster product alone, whose tiles it does not share.
- **A launch.** In this run single programs without shared memory were not made ready early, in the belief that this takes the host longer. It is the other way round,
  as the two driver's calls show, so that they are again. Made ready early a launch took 4.3, 4.6, 4.9 and 6.2 us of the host on four machines.
- \`push\` of All-Gather + GEMM raises a flag for each tile and rank, with a fence each; on a GPU that costs more than it brings.
- Kernels of this run were compiled by nvcc 13.0 beforehand, not by NVRTC.`

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
