/**
 * `arke/eslint`: an ESLint plugin for kernels. It needs typed linting: typescript-eslint's parser with `projectService`.
 *
 *   import arke from 'arke/eslint'
 *   export default [{ files: ['kernels/**'], ...arke.configs.recommended }]
 */
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
