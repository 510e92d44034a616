import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { COMMANDS } from '#cli/commands.ts'
import { readArguments } from '#cli/read-options.ts'
import { printable, showAmount, showFacts, showJson, showTable } from '#cli/show.ts'
import { suggest } from '#cli/suggest.ts'
import { callSibyl } from './call-sibyl.ts'

const NOWHERE = { SIBYL_URL: 'http://127.0.0.1:1' }
const KEY = `0x${'ab'.repeat(32)}`

test('every command has help, and the general help lists all commands', async () => {
  const whole = await callSibyl(['--help'])
  assert.equal(whole.code, 0)
  for (const { name, takes, about, options } of COMMANDS) {
    assert.ok(whole.out.includes(`  ${`${name} ${takes}`.trimEnd()} `), name)
    for (const ask of [
      [...name.split(' '), '--help'],
      [...name.split(' '), '-h'],
      ['help', ...name.split(' ')],
    ]) {
      const { code, out, err } = await callSibyl(ask)
      assert.deepEqual([code, err], [0, ''])
      assert.ok(out.includes(about) && out.includes(`sibyl ${name}`), name)
      for (const option of Object.keys(options)) assert.ok(out.includes(`--${option}`), option)
    }
    const [group = '', second] = name.split(' ')
    if (second !== undefined) assert.ok((await callSibyl([group, '--help'])).out.includes(name))
  }
})

test('control characters in the texts of other users are escaped in terminal output and in JSON output', async (t) => {
  const question = 'a\u001b]52;c;aGk=\u0007 \u009b2J \u202eb\r\nok  another market'
  const server = createServer((_, response) => {
    response.writeHead(400, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ error: question, code: 'INVALID_FIELD' }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close().closeAllConnections())
  const { port } = server.address() as AddressInfo
  const { err } = await callSibyl(['markets', '--url', `http://127.0.0.1:${port}`])
  assert.match(
    err,
    /^sibyl: a\\u001b\]52;c;aGk=\\u0007 \\u009b2J \\u202eb\\u000d \(INVALID_FIELD\)\n$/,
  )

  assert.equal(JSON.parse(printable(showJson({ question }))).question, question)
  const rows = printable(showTable(['QUESTION'], [[question]])).split('\n')
  assert.equal(rows.length, 3, 'a line break does not make a row')
  assert.equal(showFacts({ question }).split('\n').length, 2)
})

test('every command that prints data can print JSON, and every command that calls an exchange accepts its URL', () => {
  const without = (option: string) =>
    COMMANDS.filter(({ options }) => !(option in options)).map(({ name }) => name)
  // `maker` prints rounds of quotes instead of data, and `mcp` always prints JSON, so both lack the option `json`.
  // `keys list` reads only local files, so it lacks the option `url`.
  assert.deepEqual(without('json'), ['maker', 'mcp'])
  assert.deepEqual(without('url'), ['keys list'])
})

test('an invalid command line prints one line with a suggestion, and exits with code 2', async () => {
  const wrong = async (...args: string[]) => {
    const { code, out, err } = await callSibyl(args, NOWHERE)
    assert.deepEqual([code, out], [2, ''], args.join(' '))
    assert.match(err, /^sibyl: [^\n]+\n$/)
    return err
  }
  assert.match(await wrong('ordr'), /no command 'ordr'; did you mean order\?/)
  assert.match(await wrong('market', 'crate'), /did you mean create\?/)
  assert.match(await wrong('frobnicate'), /sibyl --help lists all commands/)
  assert.match(await wrong('markets', '--jsn'), /no option --jsn; did you mean --json\?/)
  assert.match(await wrong('markets', '--colour'), /sibyl markets --help lists all options/)
  assert.match(await wrong('order'), /sibyl order buy\|sell/)
  assert.match(await wrong('order', 'buy', 'rain'), /sibyl order buy <market> <YES\|NO>/)
  assert.match(await wrong('order', 'buy', 'rain', 'YES', '--size', '1'), /--price is missing/)
  assert.match(
    await wrong('order', 'buy', 'rain', 'MAYBE', '--size', '1', '--price', '0.5'),
    /outcome must be YES or NO, not 'MAYBE'/,
  )
  assert.match(await wrong('book', 'a', 'YES', 'c'), /unexpected argument 'c'/)
  assert.match(await wrong('warp', '--seconds', '-5'), /from 1 to 31536000, not '-5'/)
  assert.match(await wrong('warp', '--seconds', '--json'), /--seconds needs a value/)
  assert.match(await wrong('markets', '--json=yes'), /--json takes no value/)
  assert.match(await wrong('markets', '--url', 'exchange'), /--url must be like/)
  assert.match(await wrong('markets', '--category', 'sport'), /--category must be defi or/)
  assert.match(await wrong('cancel'), /--all/)
  assert.match(await wrong('cancel', '0x12', '--all'), /--all/)
  assert.match(await wrong('cancel', '0x12', '--market', 'rain'), /--market needs --all/)
  assert.match(await wrong('redeem'), /--all/)
  assert.match(await wrong('positions', '0x12'), /not an address/)
  assert.equal((await callSibyl([])).code, 2)
})

test('a private key is never accepted as an argument, and never printed', async () => {
  for (const args of [
    ['orders', '--key', KEY],
    ['orders', `--key=${KEY}`],
    ['orders', '--key-file', KEY],
    ['orders', 'rain', KEY],
    ['keys', 'revoke', 'id', KEY.slice(2)],
  ]) {
    const { code, out, err } = await callSibyl(args, NOWHERE)
    assert.equal(code, 2, args[1])
    assert.ok(!`${out}${err}`.includes(KEY.slice(2)), 'the key is not repeated')
  }
})

test('if no exchange answers at the URL, a command reports this and exits with code 1', async () => {
  for (const args of [['markets'], ['book', 'rain'], ['watch', 'orders', '--account', '10']]) {
    const { code, out, err } = await callSibyl(args, NOWHERE)
    assert.deepEqual([code, out], [1, ''])
    assert.match(err, /^sibyl: no exchange answers at this URL: is npm start running.*\n$/)
  }
})

test('the command “keys list” reports no keys if the folder contains only files that are not keys', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sibyl-cli-'))
  try {
    await writeFile(join(folder, 'other.json'), '{"id": 1}')
    const { code, out } = await callSibyl(['keys', 'list'], { SIBYL_KEYS_DIR: folder })
    assert.deepEqual([code, out], [0, `no keys in ${folder}\n`])
    assert.deepEqual(await readdir(folder), ['other.json'])
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('the command line shows amounts exactly, with at least two decimals', () => {
  for (const [millionths, shown] of [
    [0, '0.00'],
    [1, '0.000001'],
    [420_000, '0.42'],
    [425_000, '0.425'],
    [10_000_000, '10.00'],
    [-1_500_000, '-1.50'],
    [27_021_597_764_222_973n, '27021597764.222973'],
  ] as const) {
    assert.equal(showAmount(millionths), shown)
  }
  assert.equal(showJson({ a: 5n, b: 2n ** 60n }), '{"a":5,"b":"1152921504606846976"}\n')
  assert.equal(showTable(['A', 'B'], [['long', 'x']]), 'A     B\nlong  x\n')
})

test('the command line suggests a similar command for a mistyped one, but none for an unrelated word', () => {
  const known = ['markets', 'market', 'maker', 'book', 'cancel', 'conformance']
  assert.equal(suggest('bok', known), 'book')
  assert.equal(suggest('cancle', known), 'cancel')
  assert.equal(suggest('conf', known), 'conformance')
  assert.equal(suggest('Book', known), 'book')
  assert.equal(suggest('settle', known), undefined)
})

test('every command line in the command-line guide is valid', async () => {
  const guide = await readFile(new URL('../../docs/command-line.md', import.meta.url), 'utf8')
  const lines = [...guide.matchAll(/^npx sibyl ([^#\n]+)/gm)].map(([, line = '']) => line.trim())
  assert.ok(lines.length > 15)
  for (const line of lines) {
    const words = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(
      ([, quoted, word]) => quoted ?? word ?? '',
    )
    const called = COMMANDS.filter(({ name }) => `${words.join(' ')} `.startsWith(`${name} `))
    const command = called.at(-1)
    assert.ok(command !== undefined, line)
    const { positionals } = readArguments(command, words.slice(command.name.split(' ').length))
    assert.ok(positionals.length <= 2, line)
  }
  for (const { name } of COMMANDS) {
    const [group = ''] = name.split(' ')
    assert.ok(guide.includes(`npx sibyl ${group}`), `${group} is in the guide`)
  }
})
