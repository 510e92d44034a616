/**
 * Writes the types of `src/protocol/shapes` as plain TypeScript. The package of the SDK has no TypeBox, so its types are
 * written out, with the descriptions of the OpenAPI document as comments.
 */

import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { TSchema } from 'typebox'
import { typeSchemaOf } from '#protocol/shapes/fields.ts'

const FOLDER = fileURLToPath(new URL('../src/protocol/shapes', import.meta.url))

/** A shape: a schema that is exported with a type of the same name. */
type Shape = {
  readonly name: string
  readonly file: string
  readonly schema: TSchema
  readonly comment: string
}

/** The keywords of JSON Schema that shapes use. */
type Node = {
  readonly type?: string
  readonly properties?: Readonly<Record<string, TSchema>>
  readonly required?: readonly string[]
  readonly items?: TSchema | readonly TSchema[]
  readonly anyOf?: readonly TSchema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly patternProperties?: Readonly<Record<string, TSchema>>
  readonly description?: string
}

/** Returns the source of every file of shapes as plain types, by the name of the file. */
export async function shapeTypes(): Promise<ReadonlyMap<string, string>> {
  const shapes = await readShapes()
  const named = new Map(shapes.map((shape) => [shape.schema, shape]))
  const files = Map.groupBy(shapes, ({ file }) => file)
  return new Map([...files].map(([file, own]) => [file, fileOf(file, own, named)]))
}

async function readShapes(): Promise<Shape[]> {
  const shapes: Shape[] = []
  for (const file of (await readdir(FOLDER)).sort()) {
    const text = await readFile(join(FOLDER, file), 'utf8')
    const exports = (await import(join(FOLDER, file))) as Record<string, TSchema>
    for (const [, name = ''] of text.matchAll(/^export type (\w+) = Answer<typeof \1>$/gm)) {
      const before = text.slice(0, text.indexOf(`\nexport const ${name} `) + 1)
      const comment = /\/\*\*(?:(?!\*\/)[\s\S])*\*\/\n$/.exec(before)?.[0] ?? ''
      shapes.push({ name, file, schema: exports[name]!, comment })
    }
  }
  return shapes
}

function fileOf(
  file: string,
  shapes: readonly Shape[],
  named: ReadonlyMap<TSchema, Shape>,
): string {
  const imported = new Map<string, Set<string>>()
  const reference = (schema: TSchema): string | undefined => {
    const shape = named.get(schema)
    if (shape !== undefined && shape.file !== file) {
      imported.set(shape.file, (imported.get(shape.file) ?? new Set()).add(shape.name))
    }
    return shape?.name
  }
  const types = shapes.map(
    ({ name, schema, comment }) =>
      `${comment}export type ${name} = ${typeText(schema, '', reference)}\n`,
  )
  const imports = [...imported].map(
    ([from, names]) => `import type { ${[...names].join(', ')} } from './${from}'\n`,
  )
  return [...imports, ...types].join('\n')
}

type Reference = (schema: TSchema) => string | undefined

/** Returns the type that a schema describes, as TypeScript; all lines after the first begin with `indent`. */
function typeText(schema: TSchema, indent: string, reference: Reference): string {
  const node = nodeOf(schema)
  const part = (inner: TSchema): string => reference(inner) ?? typeText(inner, indent, reference)
  if (node.const !== undefined) return literal(node.const)
  if (node.enum !== undefined) return node.enum.map(literal).join(' | ')
  if (node.anyOf !== undefined) return node.anyOf.map(part).join(' | ')
  if (Array.isArray(node.items)) return `readonly [${node.items.map(part).join(', ')}]`
  if (node.type === 'array') {
    const item = node.items as TSchema
    const { type, items, properties } = nodeOf(item)
    const isAtom = reference(item) !== undefined || (type !== undefined && items === undefined)
    return isAtom || properties !== undefined
      ? `readonly ${part(item)}[]`
      : `readonly (${part(item)})[]`
  }
  if (node.properties !== undefined) return objectText(node, indent, reference)
  if (node.patternProperties !== undefined) {
    const [item] = Object.values(node.patternProperties)
    return `{ readonly [name: string]: ${part(item!)} }`
  }
  if (node.type === 'integer') return 'number'
  if (['string', 'number', 'boolean', 'null'].includes(node.type ?? '')) return node.type!
  throw new Error(`the generator has no TypeScript type for the schema ${JSON.stringify(schema)}`)
}

const nodeOf = (schema: TSchema): Node => (typeSchemaOf(schema) ?? schema) as Node

function objectText(
  { properties = {}, required = [] }: Node,
  indent: string,
  reference: Reference,
): string {
  const inner = `${indent}  `
  const lines = Object.entries(properties).map(([name, schema]) => {
    const { description } = schema as Node
    const comment = description === undefined ? '' : `${inner}/** ${description} */\n`
    const type = reference(schema) ?? typeText(schema, inner, reference)
    return `${comment}${inner}readonly ${name}${required.includes(name) ? '' : '?'}: ${type}\n`
  })
  return `{\n${lines.join('')}${indent}}`
}

const literal = (value: unknown): string =>
  typeof value === 'string' ? `'${value}'` : String(value)
