/** Reads the arguments of a command; an error about an invalid option is one line that names the option. */

import { parseArgs } from 'node:util'
import { OptionError } from '#devnet/command.ts'
import { type Command, type Options, positionalsOf, type Values } from './command.ts'
import { suggest } from './suggest.ts'

type ReadArguments = {
  readonly values: Values<Options>
  readonly positionals: readonly string[]
  readonly help: boolean
}

/** Pattern of a private key: an argument that matches is never printed in an error. */
const KEY = /^(?:0x)?[0-9a-fA-F]{64}$/

export function readArguments(command: Command, args: readonly string[]): ReadArguments {
  const { options } = command
  const { tokens } = parseArgs({
    args: [...args],
    strict: false,
    tokens: true,
    allowPositionals: true,
    options: {
      ...Object.fromEntries(
        Object.entries(options).map(([name, { value }]) => [
          name,
          { type: value === undefined ? ('boolean' as const) : ('string' as const) },
        ]),
      ),
      help: { type: 'boolean', short: 'h' },
    },
  })
  const values: Record<string, string | boolean> = {}
  const positionals: string[] = []
  let help = false
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value)
    if (token.kind !== 'option') continue
    const { name, rawName, value } = token
    if (name === 'help') help = true
    else values[name] = readOption(command, { name, rawName, value })
  }
  if (!help) {
    checkPositionals(command, positionals)
    for (const [name, option] of Object.entries(options)) {
      const given = values[name] ?? option.default
      if (given === undefined && option.required === true) {
        throw new OptionError(
          `--${name} is missing; sibyl ${command.name} --help lists all options`,
        )
      }
      if (given !== undefined) values[name] = given
      else if (option.value === undefined) values[name] = false
    }
  }
  return { values: values as Values<Options>, positionals, help }
}

function readOption(
  { name: command, options }: Command,
  given: { readonly name: string; readonly rawName: string; readonly value: string | undefined },
): string | boolean {
  const { name, rawName, value } = given
  const option = Object.hasOwn(options, name) ? options[name] : undefined
  if (option === undefined) {
    const meant = suggest(name, [...Object.keys(options), 'help'])
    const hint = meant === undefined ? `sibyl ${command} --help lists all options` : undefined
    throw new OptionError(`there is no option ${rawName}; ${hint ?? `did you mean --${meant}?`}`)
  }
  if (option.value === undefined) {
    if (value === undefined) return true
    throw new OptionError(`--${name} takes no value`)
  }
  if (value === undefined || value.startsWith('--')) {
    throw new OptionError(`--${name} needs a value: ${option.value}`)
  }
  if (name.endsWith('key-file') && KEY.test(value)) {
    throw new OptionError(
      `--${name} must be the path of a file; a key is never accepted as an argument`,
    )
  }
  return value
}

function checkPositionals(command: Command, positionals: readonly string[]): void {
  const { min, max } = positionalsOf(command)
  const usage = `sibyl ${command.name} ${command.takes}`.trimEnd()
  if (positionals.length < min) throw new OptionError(`an argument is missing: ${usage}`)
  if (positionals.length > max) {
    const extra = positionals[max] ?? ''
    const shown = KEY.test(extra) ? 'the last argument' : `'${extra}'`
    throw new OptionError(`unexpected argument ${shown}: ${usage}`)
  }
}
