import js from '@eslint/js'
import { defineConfig, globalIgnores } from 'eslint/config'
import { tsImport } from 'tsx/esm/api'
import tseslint from 'typescript-eslint'

// The ESLint plugin of this repository, loaded from its source.
const { default: arke } = await tsImport('./src/lint/index.ts', import.meta.url)

/** With `using` in a loop, esbuild throws the error of one iteration again in the next one: see docs/world.md. */
const usingInLoop = {
  selector:
    ':matches(ForStatement, ForInStatement, ForOfStatement, WhileStatement, DoWhileStatement) > BlockStatement VariableDeclaration[kind=/using/]',
  message: 'Call a function in the loop, with `using` in it.',
}

/** Selectors of code that branches on the names of ops: such code would ignore an op that is added later. */
const opByName = [
  "SwitchStatement[discriminant.property.name='op']",
  "CallExpression[callee.property.name='includes'][arguments.0.property.name='op']",
  "CallExpression[callee.property.name=/^(startsWith|endsWith|slice|replace)$/][callee.object.property.name='op']",
  "CallExpression[callee.property.name=/^(startsWith|endsWith)$/][callee.object.name='op']",
].map((selector) => ({
  selector,
  message: 'Ask the record of the op (src/ir/ops), or make a table whose type has every such op.',
}))

const askForm = 'Ask the form of the code (emit/code.ts) or the record of the op, not a text.'

/** Selectors of code that searches, measures, compares or parses a text. */
const textSearches = [
  'Literal[regex]',
  ":matches(NewExpression, CallExpression)[callee.name='RegExp']",
  'CallExpression[callee.property.name=/^(startsWith|endsWith|match|matchAll|search|trim|trimStart|trimEnd|test|exec|split|replace|replaceAll|charAt|charCodeAt|codePointAt|substring|substr|localeCompare)$/]',
  "CallExpression[callee.property.name=/^(includes|indexOf|lastIndexOf)$/][arguments.0.raw=/^.?['\x22]/]",
  "CallExpression[callee.property.name='slice'] > MemberExpression.arguments[object.type='Literal']",
  "BinaryExpression[operator=/^[!=]==$/] > MemberExpression[property.name='text']",
  "BinaryExpression[operator=/^[!=]==$/][left.name='text'][right.type=/^(Identifier|MemberExpression)$/][right.name!='undefined']",
  'BinaryExpression[operator=/^[!=]==$/] > MemberExpression[computed=true][object.name=/^(names|texts)$/]',
  'CallExpression[callee.property.name=/^(includes|indexOf|lastIndexOf)$/][callee.object.name=/^(names|texts)$/]',
  ":matches(MemberExpression[property.name='length'][object.name='text'], MemberExpression[property.name='length'][object.property.name='text'])",
  'TSTemplateLiteralType',
].map((selector) => ({ selector, message: askForm }))

/** Uses of the text of generated code, which exists only once the whole kernel is written. */
const textOfCode = {
  selector: ":matches(MemberExpression[property.name='asText'], ObjectPattern > Property[key.name='asText'])",
  message: askForm,
}

export default defineConfig([
  globalIgnores(['dist', 'coverage', '.arke-cache', '.bundle', 'scratch']),
  js.configs.recommended,
  tseslint.configs.recommended,
  {
    rules: {
      eqeqeq: 'error',
      'no-restricted-syntax': ['error', usingInLoop],
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', caughtErrorsIgnorePattern: '^_' },
      ],
    },
  },
  {
    // The following rules need type information, which is slow, but no other check finds a forgotten `await`.
    files: ['**/*.ts'],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@typescript-eslint/await-thenable': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
    },
  },
  {
    files: ['src/**/*.ts'],
    ignores: ['**/*.test.ts'],
    rules: {
      'no-restricted-syntax': ['error', usingInLoop, ...opByName],
    },
  },
  {
    // Decisions about emitted code come from its form (cuda/emit/code.ts, cpu/code.ts). names.ts makes C++ names of other
    // names. test/targets/text.test.ts holds every file that makes code to these rules.
    files: [
      'src/targets/*/{emit,lower}/**/*.ts',
      'src/targets/cuda/{declaration,prelude}.ts',
      'src/targets/native/{expression,locals,prelude,render,statement,text}.ts',
      'src/targets/wasm/{arithmetic,encode,expressions,locals,names,render,statements}.ts',
    ],
    ignores: ['**/*.test.ts', 'src/targets/cuda/emit/names.ts'],
    rules: {
      'no-restricted-syntax': ['error', usingInLoop, ...opByName, ...textSearches, textOfCode],
    },
  },
  {
    // The following files write the text of a kernel, so they may use the text of generated code.
    files: ['src/targets/cuda/emit/{code,emit}.ts'],
    rules: { 'no-restricted-syntax': ['error', usingInLoop, ...opByName, ...textSearches] },
  },
  {
    files: ['src/ops/**/*.ts', 'examples/**/*.ts', 'test/**/*.ts', 'bench/**/*.ts'],
    extends: [arke.configs.recommended],
  },
])
