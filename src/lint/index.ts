/** `arke/eslint`: an ESLint plugin for kernels. docs/eslint.md shows how to configure it; its rules need type information. */
import type { ESLint, Linter } from 'eslint'
import { noSymbolCoercion } from './noSymbolCoercion.ts'

const rules = { 'no-symbol-coercion': noSymbolCoercion }
const meta = { name: 'arke' }
const recommended: Linter.Config = {
  plugins: { arke: { meta, rules } },
  rules: { 'arke/no-symbol-coercion': 'error' },
}

const plugin = { meta, rules, configs: { recommended } } satisfies ESLint.Plugin
export default plugin
