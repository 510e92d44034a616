/**
 * Runs one command line. An error is printed as one line; the exit code is 2 for wrong usage and 1 for any other
 * failure.
 */

import { SibylError } from '#client/sibyl-error.ts'
import { CommandError, OptionError } from '#devnet/command.ts'
import type { Command, CommandIo } from './command.ts'
import { helpOf, helpOfAll, helpOfGroup } from './help.ts'
import { readArguments } from './read-options.ts'
import { printable } from './show.ts'
import { suggest } from './suggest.ts'

const CALLED_WRONGLY = 2
const FAILED = 1

/** Runs the command line; returns the exit code. */
export async function runSibyl(
  commands: readonly Command[],
  args: readonly string[],
  { out, err, ...rest }: CommandIo,
): Promise<number> {
  const io: CommandIo = {
    ...rest,
    out: (text) => out(printable(text)),
    err: (text) => err(printable(text)),
  }
  try {
    return (await run(commands, args, io)) ?? 0
  } catch (error) {
    io.err(`sibyl: ${wordsOf(error)}\n`)
    return error instanceof OptionError ? CALLED_WRONGLY : FAILED
  }
}

async function run(
  commands: readonly Command[],
  args: readonly string[],
  io: CommandIo,
): Promise<number | undefined> {
  const [first, ...rest] = args
  if (first === undefined || first === '--help' || first === '-h') {
    io.out(helpOfAll(commands))
    return first === undefined ? CALLED_WRONGLY : 0
  }
  if (first === 'help') return run(commands, [...rest, '--help'], io)
  const group = commands.filter(({ name }) => name.startsWith(`${first} `))
  if (group.length > 0) return runOfGroup(group, first, { args: rest, io })
  const command = commands.find(({ name }) => name === first)
  if (command !== undefined) return runOne(command, rest, io)
  const names = commands.map(({ name }) => name.split(' ')[0] ?? name)
  throw unknown('command', first, { known: [...new Set(names)], see: 'sibyl --help' })
}

async function runOfGroup(
  group: readonly Command[],
  first: string,
  { args, io }: { readonly args: readonly string[]; readonly io: CommandIo },
): Promise<number | undefined> {
  const [second, ...rest] = args
  const names = group.map(({ name }) => name.slice(first.length + 1))
  if (second === '--help' || second === '-h') {
    io.out(helpOfGroup(first, group))
    return 0
  }
  if (second === undefined || second.startsWith('-')) {
    throw new OptionError(`the command is incomplete: sibyl ${first} ${names.join('|')}`)
  }
  const command = group.find(({ name }) => name === `${first} ${second}`)
  if (command !== undefined) return runOne(command, rest, io)
  throw unknown(`'sibyl ${first}' command`, second, { known: names, see: `sibyl ${first} --help` })
}

async function runOne(
  command: Command,
  args: readonly string[],
  io: CommandIo,
): Promise<number | undefined> {
  const { values, positionals, help } = readArguments(command, args)
  if (!help) return command.run({ values, positionals, io })
  io.out(helpOf(command))
  return 0
}

function unknown(
  what: string,
  word: string,
  { known, see }: { readonly known: readonly string[]; readonly see: string },
): OptionError {
  const meant = suggest(word, known)
  const hint = meant === undefined ? `${see} lists all commands` : `did you mean ${meant}?`
  return new OptionError(`there is no ${what} '${word.slice(0, 40)}'; ${hint}`)
}

function wordsOf(error: unknown): string {
  if (error instanceof CommandError) return firstLine(error)
  if (!(error instanceof SibylError)) {
    return error instanceof Error ? firstLine(error) : String(error)
  }
  if (error.code === 'NETWORK') {
    return `no exchange answers at this URL: is npm start running, and is --url right? (${error.message})`
  }
  const field = error.field === undefined ? '' : `, field ${error.field}`
  return `${firstLine(error)} (${error.code}${field})`
}

function firstLine({ message }: Error): string {
  return message.split('\n')[0] ?? ''
}
