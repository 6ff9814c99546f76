/** Implements `arke operations`, which lists the operations that can be measured and tuned. */
import { operandDTypes } from '../operation/definition.ts'
import { commandName, operations } from '../ops/operations.ts'

/** The document that `--json` prints. */
export const operationDocument = (version: string): unknown => ({
  arke: version,
  operations: operations.map((definition) => {
    const { title, variants, defaults, dtypes = operandDTypes, aliases = {}, layouts = {} } = definition
    return {
      name: commandName(definition),
      ...{ title, variants, shape: defaults.shape, aliases, dtypes, dtype: defaults.dtype, layouts },
      packs: definition.packs,
    }
  }),
})

export function operationTable(): string {
  const blocks = operations.map((definition) => {
    const { title, variants, defaults, aliases = {}, layouts = {} } = definition
    const extents = Object.entries(defaults.shape).map(([name, usual]) => {
      const others = Object.keys(aliases).filter((alias) => aliases[alias] === name)
      return `${[name, ...others.map((alias) => alias.toUpperCase())].join(' or ')}=${usual}`
    })
    return [
      `${commandName(definition)}  ${title}`,
      `  --variant  ${variants.join(', ')}`,
      `  --shape    ${extents.join(', ')}`,
      ...Object.entries(layouts).map(
        ([name, values]) => `  --layout   ${values.map((value) => `${name}=${value}`).join(' or ')}`,
      ),
    ].join('\n')
  })
  return blocks.join('\n\n')
}
