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
      ? [
          '\\* Measured in a run before this one, on another machine of this kind, with the kernels of that time.',
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
    left,
    '## On a node with several GPUs',
    'The same command: where there are as many GPUs as ranks, each rank has one. Nobody has run that yet. Strong scaling says how many multiprocessors each rank has, so it always shares the first GPU out.',
  ].join('\n\n')
}

const how = (
  cells: readonly CellResult[],
): string => `Everything at one point is measured in turns in one process, in a random order every round, Python's libraries in a process that
takes turns with it. Tiles are those that are shipped for this device, which \`bench/gpu/tune.ts\` found at some of the shapes
(those of Flash Decode up to 32K tokens and of the product of 16 x 28672 were chosen by hand, see the end), or the rule's. _(graph)_ is the same launches as one CUDA graph. Inputs are random and take turns over
more than 200 MB, or are larger; results are poisoned and compared with float64 before. Medians with 95 % intervals.${inRounds(cells)}

**Where ranks communicate every execution has a gate of its own** on the device. It opens when all ranks are there and all is enqueued, and
the execution ends with the last rank. What comes first behind a gate is made ready while it is closed, as behind any kernel of ours, and touches no memory before it opens;
kernels of cuBLASLt are launched plainly, and begin some 1.7 us after that. To open a gate and to tell the time takes ${tellingOf(cells)} us, which is
measured as turns of nothing in the same rounds, and taken off. **In loops** (tables of their own) several executions follow each other behind one gate: there a
rank may be ahead of others. Ranks share one memory and do not get equal parts of it, which evens out over a loop of products alone; whatever
communicates must keep step in every execution. What one rank computes alone is measured in loops of ${turnsOf(cells)}, as its peers are, and nothing is taken off.

Ranks are **virtual**: they share one GPU's memory and second cache, each with 16 multiprocessors of its own, and no link lies between
them. Nothing here says whether pulling or pushing is better on real nodes. _bsp_ is the faster of ours and of our all-gather followed by
cuBLASLt, the fastest of its eight proposals for 16 multiprocessors, once and in a loop. The limit is the larger of bytes over 4.38 TB/s, which was
measured, and operations over 790 TFLOP/s, on the share of multiprocessors that ranks have.`

const inRounds = (cells: readonly CellResult[]): string =>
  cells.some(({ speedup }) => speedup !== undefined)
    ? ' _bsp / fused_ is the ratio in each round, in which both had their turns; where its interval held 1, or it differed from 1 by less than 0.01, the two fastest took turns alone once more, and it is theirs.'
    : ''

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

- **All-Gather + GEMM, few rows.** The weights alone take 107 us at 4.38 TB/s. In loops **keeping step** is what is left: measured on another machine of this kind, M=8, with the same tiles, in one process, the product alone
  took 110.8 us; in the order of shards, own shard first, from inboxes 112.4; sending as well 112.4; waiting for the shards of the launch
  before 111.8; waiting for those of this launch 114.9. Ranks that share a memory do not end together: one gets 10 to 20 % more of it than the others from
  the third launch on. Shards are therefore taken as they arrive, and idle warps send. Early copies of weights by a part of the producer that waits for nothing, two programs on a
  multiprocessor, of which one starts while the other ends, and weights that leave the second cache first gained nothing, or lost.
- **What made the difference for few rows** was one number: tensor maps asked for 256 bytes at once in the second cache, of which a
  box reads 128. Each half then came across from the other half of the cache twice: 11.1 instead of 7.5 million sectors, 85 instead of
  91 % of the memory's peak, in every kernel that copies tiles, attention included.
- **Products of few rows** are computed transposed, the weights as the left operand (wgmma with 8, 16, ... columns). On 16
  multiprocessors alone (strong scaling with one rank) tiles decide, and above all that two programs share a multiprocessor: M=8 with tiles of 8 x 128 x 64 in 6 stages takes 239 us,
  in 10 stages, which leave no room for a second program, 392; 8 x 64 x 128 in 8 stages, which the rule took before, 403.
- **Two programs on a multiprocessor, and what is launched next.** M=16, N=28672 on the whole GPU: tiles of 128 columns in 5 or 6 stages leave room for two, and are 224 for 264 places. Where the next launch of such a
  product may be made ready early, one takes 110 to 113 us behind a gate and 117 to 119 in a loop, whether it copies early or not; where nothing is, 107.2 to 108.6 both ways, in four processes on three machines; in this run, 109.6 by launches and 109.4 as a graph. cuBLASLt's fastest kernel has tiles of 128 columns, too, 132
  programs, and so two tiles for 92 of them: in most processes it took 107.3 to 111.2 us, in one 118. So the two are equal within what machines differ by. Presumably what differs is which multiprocessors have two; with one for each, 224 columns and 128 programs, there is less to lose: on one machine 111.2 in a loop with the next one early and 109.9 without. In this run, nothing was made ready early behind a kernel
  whose producer may copy early and of which several programs run on a multiprocessor. That rule stood for this shape alone and is gone since: expect 117 to 119 us in a loop until this page is measured again. By counters (\`ncu\`, alone): cuBLASLt 90.7 % of the memory's peak, 128 columns 89.6, 224 columns, whose boxes are 64 bytes wide, 88.8, with 11.1 instead of 7.5 million requests.
  **Even shares** of the steps along K (a stream-K product, deleted since) took, measured by hand on another machine, 112.8 to 123 us in loops in the place of 109.2; presumably since programs then read rows far apart, where those of whole tiles read the same rows side by side: with one share a tile they took 110.4. At M=128 127.8 in the place of 120.5 us, at 16 x 4096 12.6 of 12.5.
  To make nothing ready before a kernel with a ring of tiles has ended was tried for all such kernels: products of one rank took 3 % less to 1 % more, its \`bsp\` of attention, where a short kernel follows, 2 to 5 % more, attention alone on eight ranks in loops 4 to 6 % less, and all else the same within 2 %.
- **512 rows.** Tiles of 256 columns are 56 for 16 multiprocessors, 3.5 rounds; of 224 columns they are 64, four full ones. That is an eighth less work
  for the last to end, and gains 2 % for \`pull\` and nothing for \`bsp\`; presumably power, not the number of multiprocessors at work, is the limit.
- **Outboxes.** In place, \`pull\` ends with a meeting of all ranks, so that A may be written again: a counter, a flag, and a look at it, one after the other. On another machine, in
  one process behind gates, M=64: the product alone 114.6 us, \`pull\` 117.1, without that meeting 114.2; told as soon as the last tile of A has arrived 116.5. From outboxes nobody
  meets; on a third machine, in place, from outboxes and the product alone: 115.1, 111.5 and 112.2 us at M=64, 111.2, 107.7 and 109.7 at M=32, 124.6, 118.3 and 121.1 at M=128,
  112.7, 109.0 and 107.6 at M=8; 182.5, 182.3 and 180.5 at M=256, where four of sixteen programs copy before their last tile. Producers that start their first copy
  before they know whether the world was stopped gained nothing (M=64 115 instead of 114), and lost 4 % at M=512, which is not understood.
- **Flash Decode, one sequence of 8K tokens a rank.** Attention alone takes 92.8 us behind a gate, \`bsp\` 12.1 us more and \`fused\` 2.5, so that 74 % is recovered here. Memories of such machines differ, and the floor, which is bytes over a bandwidth, does not: attention alone took 90.5 to 93.0 us on seven machines. Where it took
  90.5, in a complete run on another one, 86 % was recovered; in a quick run, where it took 92.3, 78 %.
  **Partial results stay where they are made** and are fetched by all ranks (\`fetching\`), since ranks share one memory: the last one is stored once and not in eight inboxes. Inboxes and fetching, two instances each, on one machine, behind gates: 95.5, 95.6 and 95.0, 95.2 us in one
  process, 95.0, 95.4 and 94.6, 94.4 in another; in loops 98.2 to 98.7 and 96.4 to 97.1; 16K 183.0, 183.3 and 182.3, 182.3; 32K 359.4, 359.9 and 358.7, 359.0. By the device's clock, on another machine, from the end of the gate, medians of 40 executions: programs begin 1.7 us later (less,
  since they are made ready before), the first tile arrives at a program after 4 to 6 us and the last after 88 to 95, 92 on average, and which are late differs from one execution to the next. After the last
  the product takes 0.7 us, sending it to eight inboxes 0.8, the last part is there 0.8 later and combined 1.0 after that. By leaving parts out, with flags, in one process on a third machine, behind gates: attention 95.3; sending to one rank alone 95.7, to all 96.1; telling as well
  95.8; combining without waiting 98.3; all of it 98.5. With three tiles under way instead of two, attention takes 98 us: by number of multiprocessor, those of some ranks end after
  83 us and those of others after 102.
  Since then words carry two bits of their epoch, in the place of flags and fences: by hand 0.8 us less, of two and three instances in one process, on three machines, where the words of a thread lie side by side, and nothing where
  they lie in rows. Tried: partial results side by side, with flags (nothing); programs of a rank that keep pace, by a counter (the first end 2 us later, the last no sooner, so that those that are late
  wait for something else than those that are ahead); copies that begin before the length is known, or at another tile for each program; keys and values with barriers
  of their own; eight warps that multiply instead of four (97.2 instead of 95.9 us); parts loaded before the first is weighed; code for combining that has run once before (nothing, or worse); keys and values that leave the second cache first (0 to 3 us less, for \`bsp\` as
  well; presumably since what was read first is then still there in the next execution, as it would not be where a model has more layers). And, each in one process: tiles brought into the second cache one to four tiles
  ahead (125 us instead of 91), or the last eight alone (93); a tile in boxes of 64 or 32 rows, so that both halves of a row are asked for together (nothing), of 16 (96 instead of 93.5) or 8 rows (134); four, five and six stages of
  64 tokens (0.8, 4.5 and 9 us more), two (17 more), and 32 tokens (48 more); loops that send, not written out (0.1 more); one look at all words of the partial results instead of two (0 to 0.4 less, not built); warps that attend to 32 tokens each, without a barrier, and merge at the end (nothing); partial results put into inboxes by the copy engine (nothing, or 0.8 more).
  Looks that threads take on their own, without a barrier, are built: 0.1 us less, 0.5 in loops.
- **Flash Decode, longer sequences.** One part for each of 12 heads on 16 multiprocessors, or even shares for all 16, in one process behind gates: at 16K \`fused\`
  186.9 and 191.7 us, \`bsp\` 193.7 and 197.2; at 32K 365.0 and 367.6, 370.8 and 372.7. The tuner, half of whose score is loops, takes even shares from 16K on. Chosen by hand, from executions behind gates: up to 32K \`bsp\` and \`fused\` have
  one part a head and \`fused-coarse\` even shares from 16K on; beyond, all have those, of caches that are full. Where an execution takes milliseconds, \`fused\` is faster by some microseconds.
- **A graph that waits makes others slow.** In runs before, turns of long executions differed by 2 %. Of 192 turns at 22 ms, in the order in which they were enqueued, 90 had a graph on eight ranks enqueued behind them: 88 of those took 1.6 % longer, and none of the other 102.
  Graphs now have a batch to themselves, and all 25 intervals of \`bsp\` over \`fused\` are above 1. Why is not known; presumably queues of other ranks that wait for the graph are looked at all the time.
- **Attention of one rank, 131072 tokens.** 128 parts have 128 programs. When there were 264, as many as fit, \`fused\` took 134 us and 160 in a graph, on another machine:
  presumably two with a part shared a multiprocessor.
- **Below a limit.** Limits are what was measured once: long caches are read at up to 4.6 TB/s (4.72 on another machine), and 790 TFLOP/s are those of a whole GPU
  at the clock that its power allows; fewer multiprocessors run faster. _Recovered_ is above 100 % where a fused variant is faster than
  the faster product alone, whose tiles it does not share.
- **A launch** is one call of the driver, and JavaScript beside it. The driver's part is the host's: made ready early it took 3.04, 3.49, 3.55, 3.82, 4.06 and 4.43 us on six hosts, and the launch 3.34, 4.02, 3.92, 4.24, 4.6 and 4.92 (host's time; the third and the last before addresses were
  given as numbers). From C, in a loop of nothing else, 2.6 to 3.5; one host has both a fast and a slow state, in which calls that do next to nothing take 0.17 or 0.33 us, presumably by what its other hyperthread does. A graph of one kernel takes 1.1 to 1.8 us from C, but what comes behind it
  cannot be made ready early, and begins a microsecond or two later.
- \`push\` of All-Gather + GEMM raises a flag for each tile and rank, with a fence each; on a GPU that costs more than it brings.
- **A pause in the gate**, after the meeting, made products up to a fifth slower, cuBLASLt's too, behind the gate and in loops, which is not understood; there is none.
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

/** Cells of an earlier run have a star. */
const marked = (table: Table, earlier: readonly string[]): Table => ({
  ...table,
  rows: table.rows.map(([name, ...rest]) => [
    earlier.some((key) => name === key || name.startsWith(`${key}, `)) ? `${name} \\*` : name,
    ...rest,
  ]),
})

const asMarkdown = ({ title, head, rows, notes }: Table): string =>
  [`## ${title}`, rowsOf(head, rows), ...notes.map((note) => `- ${note}`)].join('\n\n')
