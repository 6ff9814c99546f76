/** Formats IR as readable text: one node per line, with indented blocks and names for values that are used later. */
import { attribute, type Block, type KernelIR, type Node } from './node.ts'
import { entryOf, type ControlName } from './ops/index.ts'
import { typeName } from './type.ts'

export interface PrintOptions {
  /** If true, the author's source lines are appended to the printed nodes. */
  readonly sites?: boolean
}

export function print(ir: KernelIR, options: PrintOptions = {}): string {
  const names = new Map<Node, string>()
  let next = 0
  const nameOf = (node: Node): string => {
    const known = names.get(node)
    if (known) return known
    const name = node.op === 'param' ? unique(String(node.attributes.name)) : `%${next++}`
    names.set(node, name)
    return name
  }
  const taken = new Set<string>()
  const unique = (base: string): string => {
    let name = base
    for (let i = 1; taken.has(name); i++) name = `${base}.${i}`
    taken.add(name)
    return name
  }
  const used = new Set<Node>()
  const collect = (block: Block): void => {
    for (const node of block.nodes) {
      node.inputs.forEach((input) => used.add(input))
      node.blocks.forEach(collect)
    }
    block.results.forEach((result) => used.add(result))
  }
  collect(ir.body)

  const operand = (node: Node): string =>
    node.op === 'const' ? `${String(node.attributes.value)}` : node.op === 'rank' ? 'rank' : nameOf(node)
  const lines: string[] = []
  const visit = (block: Block, indent: string): void => {
    for (const node of block.nodes) {
      if (node.op === 'const' || node.op === 'rank') continue
      const result = used.has(node) && node.type.kind !== 'void' ? `${nameOf(node)} = ` : ''
      const controls = node.op === 'result' ? ` ${names.get(node.inputs[0]) ?? ''}` : ''
      const attributes = Object.entries(node.attributes)
        .filter(([, value]) => value !== undefined)
        .map(([key, value]) => `${key}=${Array.isArray(value) ? `[${value.join(',')}]` : String(value)}`)
      const inputs = node.op === 'result' ? [] : node.inputs.map(operand)
      const type = node.type.kind === 'void' ? '' : `: ${typeName(node.type)}`
      const label = node.blocks.length > 0 && used.has(node) ? `${nameOf(node)} = ` : ''
      const site = options.sites && node.site ? `   // ${node.site}` : ''
      lines.push(
        `${indent}${result || label}${node.op}${controls}(${[...inputs, ...attributes].join(', ')})${type}${site}`,
      )
      node.blocks.forEach((inner, i) => {
        const title = blockTitle(node, i)
        const params = inner.params.map((param) => `${nameOf(param)}: ${typeName(param.type)}`).join(', ')
        lines.push(`${indent}  ${title}(${params}) {`)
        visit(inner, `${indent}    `)
        if (inner.results.length > 0)
          lines.push(`${indent}    yield ${inner.results.map(operand).join(', ')}`)
        lines.push(`${indent}  }`)
      })
    }
  }
  const params = ir.body.params.map((param) => `${nameOf(param)}: ${typeName(param.type)}`).join(', ')
  const meta = Object.entries(ir.meta).map(([key, value]) => `${key}=${String(value)}`)
  lines.push(
    `kernel ${ir.name}(${params})  // ${ir.stage}, world=${ir.world}${meta.length ? `, ${meta.join(', ')}` : ''}`,
  )
  visit(ir.body, '  ')
  return `${lines.join('\n')}\n`
}

/**
 * The titles that the printer gives to the blocks of an op. If an op has the attribute `names`, that attribute contains
 * the titles of the blocks.
 */
const titles: Readonly<Record<ControlName, 'names' | readonly string[]>> = {
  for: ['do'],
  persistent: ['do'],
  pipeline: ['do'],
  last: ['do'],
  while: ['while', 'do'],
  if: ['then', 'else'],
  until: ['do'],
  once: ['do'],
  boxes: ['do'],
  roles: 'names',
  teams: 'names',
}

function blockTitle(node: Node, i: number): string {
  const title = entryOf(titles, node, 'has no blocks')
  return (title === 'names' ? attribute<readonly string[]>(node, 'names') : title)[i]
}
