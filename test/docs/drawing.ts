/**
 * Draws the activity of two ranks over time as SVG. In the drawing, each rank has a horizontal lane. Each kernel is a
 * rectangle that contains its work, copies and waits, and messages are drawn between the lanes. The drawing has its own
 * background and follows the reader's colour scheme.
 */

export interface Block {
  readonly kind: 'work' | 'copy' | 'wait'
  readonly from: number
  readonly to: number
  readonly label?: string
  /** The number of the track within the lane on which the block is drawn, counted from the top. */
  readonly track?: number
}
export interface Lane {
  readonly kernels: readonly { readonly name: string; readonly from: number; readonly to: number }[]
  readonly blocks: readonly Block[]
  readonly tracks?: readonly string[]
}
export interface Message {
  /** The kind of message: a tile followed by its flag, a tile without a flag, or only a flag. */
  readonly kind: 'tile' | 'data' | 'flag'
  readonly from: 0 | 1
  readonly at: number
  readonly arrives: number
  readonly label?: string
}
export interface Drawing {
  readonly title: string
  readonly lanes: readonly [Lane, Lane]
  readonly messages: readonly Message[]
  /** The time at which another variant ends, for comparison. */
  readonly mark?: { readonly at: number; readonly label: string }
  readonly length: number
}

const scale = 1.85
const left = 78
const [trackHeight, kernelHead, between, top] = [26, 18, 74, 14]
const x = (time: number): number => Math.round((left + time * scale) * 10) / 10

const style = `
  text { font: 12px system-ui, sans-serif; fill: #1f2933 }
  .small { font-size: 11px }
  .card { fill: #ffffff; stroke: #d5dae1 }
  .kernel { fill: none; stroke: #8a94a3 }
  .work { fill: #d5e5ff; stroke: #2f6fde }
  .copy { fill: #c9f0dd; stroke: #0f8a5f }
  .wait { fill: url(#hatch); stroke: #d9772b }
  .hatch { stroke: #e89a5b; stroke-width: 2 }
  .message { stroke: #0f8a5f; stroke-width: 1.6; fill: none }
  .tile { fill: #0f8a5f }
  .head { fill: #0f8a5f }
  .onTile { font-size: 10px; fill: #ffffff; text-anchor: middle }
  .signal { stroke: #c2410c; stroke-width: 1.3; stroke-dasharray: 3 3; fill: none }
  .flag { fill: #c2410c; stroke: #c2410c }
  .launch { stroke: #8a94a3; stroke-width: 2; stroke-dasharray: 1.5 3.5 }
  .mark { stroke: #8a94a3; stroke-dasharray: 6 4 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .card { fill: #161b22; stroke: #343c47 }
    .kernel, .mark, .launch { stroke: #7d8794 }
    .work { fill: #1b355f; stroke: #7fb0ff }
    .copy { fill: #134232; stroke: #4cc38a }
    .wait { stroke: #f0a060 }
    .hatch { stroke: #a8683a }
    .message { stroke: #4cc38a }
    .tile, .head { fill: #4cc38a }
    .onTile { fill: #10241b }
    .signal { stroke: #ff9a62 }
    .flag { fill: #ff9a62; stroke: #ff9a62 }
  }`

const flag = (at: number, y: number): string => `<path class="flag" d="M${at} ${y}v-12l9 3.5l-9 3.5"/>`
const box = (kind: string, at: number, y: number, width: number, label = ''): string =>
  `<rect class="${kind}" x="${at}" y="${y}" width="${width}" height="${trackHeight - 8}" rx="3"/>` +
  (label &&
    `<text class="small" text-anchor="middle" x="${round(at + width / 2)}" y="${y + 13}">${label}</text>`)
const round = (value: number): number => Math.round(value * 10) / 10

export function draw({ title, lanes, messages, mark, length }: Drawing): string {
  const heights = lanes.map(({ tracks = [''] }) => kernelHead + tracks.length * trackHeight + 4)
  const tops = [top, top + heights[0] + between]
  const bottom = tops[1] + heights[1]
  const [width, height] = [Math.ceil(x(length)) + 14, bottom + 46]
  const parts: string[] = []
  if (mark) {
    parts.push(`<path class="mark" d="M${x(mark.at)} ${top}V${bottom + 6}"/>`)
    const y = round(tops[0] + heights[0] + between / 2 + 4)
    parts.push(`<text class="small" text-anchor="end" x="${x(mark.at) - 5}" y="${y}">${mark.label}</text>`)
  }
  lanes.forEach((lane, rank) => {
    const { tracks = [''] } = lane
    const [y, high] = [tops[rank], heights[rank]]
    const trackTop = (track: number): number => y + kernelHead + track * trackHeight + 2
    parts.push(`<text x="14" y="${y + kernelHead - 5}" font-weight="600">rank ${rank}</text>`)
    tracks.forEach((name, track) =>
      parts.push(`<text class="small" x="14" y="${trackTop(track) + 13}">${name}</text>`),
    )
    lane.kernels.forEach(({ name, from, to }, i) => {
      const wide = round((to - from) * scale)
      parts.push(`<rect class="kernel" x="${x(from)}" y="${y}" width="${wide}" height="${high}" rx="5"/>`)
      parts.push(`<text class="small" x="${x(from) + 6}" y="${y + 13}">${name}</text>`)
      const before = lane.kernels[i - 1]
      const middle = round(y + high / 2)
      if (before) parts.push(`<path class="launch" d="M${x(before.to) + 3} ${middle}H${x(from) - 2}"/>`)
    })
    for (const { kind, from, to, label, track = 0 } of lane.blocks)
      parts.push(box(kind, x(from), trackTop(track), round((to - from) * scale), label))
  })
  for (const { kind, from, at, arrives, label } of messages) {
    const down = from === 0
    const [start, end] = down ? [tops[0] + heights[0], tops[1]] : [tops[1], tops[0] + heights[0]]
    const [x1, x2] = [x(at), x(arrives)]
    const tip = down ? end - 2 : end + 2
    const line = `d="M${x1} ${start}L${x2} ${tip}"`
    if (kind === 'flag') parts.push(`<path class="signal" ${line}/>`)
    else {
      // The mark is closer to the sender, so that the marks of crossing messages do not overlap.
      const [mx, my] = [round(x1 + (x2 - x1) * 0.34), round(start + (tip - start) * 0.34)]
      parts.push(`<path class="message" marker-end="url(#head)" ${line}/>`)
      parts.push(
        `<rect class="tile" x="${round(mx - 8)}" y="${round(my - 7)}" width="16" height="14" rx="2"/>`,
      )
      parts.push(`<text class="onTile" x="${mx}" y="${round(my + 3.5)}">${label ?? ''}</text>`)
    }
    if (kind !== 'data') parts.push(flag(x2 + (kind === 'tile' ? 6 : 0), down ? end - 3 : end + 15))
  }
  parts.push(legend(height - 22, lanes, messages))
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
<title>${title}</title>
<style>${style}
</style>
<defs>
<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path class="hatch" d="M0 0V6"/></pattern>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker>
</defs>
<rect class="card" x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8"/>
${parts.join('\n')}
</svg>
`
}

function legend(y: number, lanes: readonly Lane[], messages: readonly Message[]): string {
  const has = (kind: Block['kind']): boolean =>
    lanes.some(({ blocks }) => blocks.some((block) => block.kind === kind))
  const entries: [boolean, string, (at: number) => string][] = [
    [has('work'), 'compute', (at) => box('work', at, y, 20)],
    [has('copy'), 'copy', (at) => box('copy', at, y, 20)],
    [has('wait'), 'wait', (at) => box('wait', at, y, 20)],
    [
      lanes.some(({ kernels }) => kernels.length > 1),
      'launch of the next kernel',
      (at) => `<path class="launch" d="M${at} ${y + 9}h20"/>`,
    ],
    [
      messages.some(({ kind }) => kind !== 'flag'),
      'tile',
      (at) => `<rect class="tile" x="${at + 4}" y="${y + 2}" width="16" height="14" rx="2"/>`,
    ],
    [messages.some(({ kind }) => kind !== 'data'), 'flag', (at) => flag(at + 9, y + 16)],
  ]
  let at = left
  const shown = entries.flatMap(([present, name, glyph]) => {
    if (!present) return []
    const entry = `${glyph(at)}<text class="small" x="${at + 26}" y="${y + 13}">${name}</text>`
    at += 44 + name.length * 5.6
    return [entry]
  })
  return shown.join('\n')
}
