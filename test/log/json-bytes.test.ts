/** Compares the bytes of our JSON writer with the output of `JSON.stringify`. */

import assert from 'node:assert/strict'
import { test } from 'node:test'
import { JsonBytes } from '#log/json-bytes.ts'
import { type Random, withSeeds } from '../support/random.ts'
import { sweep } from '../support/sample.ts'

const NUMBERS = [
  ...Array.from({ length: 17 }, (_, power) => 10 ** power).flatMap((n) => [n - 1, n, n + 1]),
  ...[2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 53 - 1, 2 ** 53, 1e21, 0.5, -0, -1, -(2 ** 40)],
  ...[Number.NaN, Number.POSITIVE_INFINITY],
]

function written(write: (into: JsonBytes) => void): string {
  const into = new JsonBytes()
  into.raw('[')
  write(into)
  into.end(']')
  return into.bytes.toString('utf8')
}

test('numbers and times are written to a row as JSON.stringify writes them', () => {
  for (const number of NUMBERS) {
    const both = written((into) => {
      into.number(number)
      into.time(number)
      into.number(number)
      into.time(number)
    })
    assert.equal(both, JSON.stringify([number, number, number, number]))
  }
})

type Cell = readonly [kind: 'plain' | 'number' | 'time' | 'value', value: unknown]

function randomCell(random: Random): Cell {
  switch (random.int(0, 3)) {
    case 0:
      return ['plain', random.chance(0.1) ? '' : random.hex(random.int(1, 65))]
    case 1:
      return ['number', Math.floor(2 ** (random.next() * 53))]
    case 2:
      return ['time', 1_700_000_000_000 + random.int(0, 2)]
    default:
      return ['value', { text: random.pick(['ø "quoted" \\ \n', '', '☃'.repeat(50)]), n: [1.5] }]
  }
}

function writeCell(into: JsonBytes, [kind, value]: Cell): void {
  if (kind === 'plain') into.plain(value as string)
  else if (kind === 'number') into.number(value as number)
  else if (kind === 'time') into.time(value as number)
  else into.value(value)
}

test('the encoder of log rows writes any values exactly as JSON.stringify does', () => {
  withSeeds([1, 2], (random) => {
    const into = new JsonBytes()
    for (const count of [1, 30_000, 2, 60_000]) {
      const cells = Array.from({ length: count }, () => randomCell(random))
      into.clear()
      into.raw('[')
      for (const cell of cells) writeCell(into, cell)
      into.end(']')
      const text = JSON.stringify(cells.map(([, value]) => value))
      assert.equal(into.length, Buffer.byteLength(text))
      assert(into.bytes.equals(Buffer.from(text)), `${count} cells`)
    }
  })
})

test('the buffer for a log row grows before a value of any kind overflows it', () => {
  const MIB = 1024 * 1024
  const { from, step } = sweep(0, 1, 4)
  for (let room = from; room < 40; room += step) {
    for (const write of [
      (into: JsonBytes) => into.plain('0x12'),
      (into: JsonBytes) => into.number(2 ** 53 - 1),
      (into: JsonBytes) => into.time(1_700_000_000_000),
      (into: JsonBytes) => into.value('☃☃☃'),
      (into: JsonBytes) => into.raw('[],'),
    ]) {
      const into = new JsonBytes()
      into.raw(`["${'x'.repeat(MIB - 4 - room)}",`)
      write(into)
      write(into)
      into.end(']')
      const [filler, ...cells] = JSON.parse(into.bytes.toString('utf8')) as [string, unknown]
      assert.equal(filler.length, MIB - 4 - room)
      assert.equal(cells.length, 2)
    }
  }
})
