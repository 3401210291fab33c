// A certificate for 127.0.0.1 that signs itself, made anew for every run, so
// that no key is in the repository.
import { generateKeyPairSync, sign } from "node:crypto";

const der = (tag, ...parts) => {
  const body = Buffer.concat(parts);
  const n = body.length;
  const length = n < 128 ? [n] : n < 256 ? [0x81, n] : [0x82, n >> 8, n & 255];
  return Buffer.concat([Buffer.from([tag, ...length]), body]);
};
const seq = (...parts) => der(0x30, ...parts);
const oid = (...bytes) => der(0x06, Buffer.from(bytes));
const time = (t) => der(0x18, Buffer.from(t.toISOString().replace(/[-:T]|\.\d+/g, "")));
const ecdsaSha256 = seq(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));

export function certificate() {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const day = 24 * 3600 * 1000;
  const name = seq(der(0x31, seq(oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from("nanobot test")))));
  const names = seq(oid(0x55, 0x1d, 0x11), der(0x04, seq(der(0x87, Buffer.from([127, 0, 0, 1])))));
  const body = seq(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.from([1])),
    ecdsaSha256,
    name,
    seq(time(new Date(Date.now() - day)), time(new Date(Date.now() + day))),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, seq(names)),
  );
  const whole = seq(body, ecdsaSha256, der(0x03, Buffer.from([0]), sign("sha256", body, privateKey)));
  const cert = `-----BEGIN CERTIFICATE-----\n${whole.toString("base64").replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`;
  return { key: privateKey.export({ type: "pkcs8", format: "pem" }), cert };
}
