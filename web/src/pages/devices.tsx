// Browsers that are signed in, and how to add one.
import { useState } from "preact/hooks";
import { t as words } from "../i18n";
import { t } from "../i18n/devices";
import { useRead } from "../state/read";
import { gateway, request, signOut } from "../state/store";
import { fail, toast } from "../state/toast";
import { visible } from "../text/links";
import type { DeviceLink, DeviceList } from "../wire/reads";
import type { Device } from "../wire/types";
import { Dialog } from "../ui/dialog";
import { Read } from "../ui/read";
import { Bar } from "./bar";
import { Notices } from "./notices";
import { Parts, When } from "./ops";

export default function Devices() {
  const list = useRead<DeviceList>("devices", {}, "devices");
  return (
    <>
      <Bar title={words("page.devices")} />
      <div class="page">
        <div class="inner">
          <Parts current="devices" />
          <section>
            <h2>{t("devices.list")}</h2>
            <p class="hint">{t("devices.list.hint")}</p>
            <Read of={list}>
              {(d) => (
                <ul class="rows">
                  {d.devices.map((x) => (
                    <Row key={x.id} of={x} />
                  ))}
                  {d.devices.length === 0 && <li class="hint">{t("devices.none")}</li>}
                </ul>
              )}
            </Read>
          </section>
          <Add />
          <Notices />
        </div>
      </div>
    </>
  );
}

function Row({ of }: { of: Device }) {
  const [asked, setAsked] = useState(false);
  const here = gateway.value?.device?.id === of.id;
  const name = visible(of.name);
  const revoke = () => {
    setAsked(false);
    if (here) void signOut().catch(fail);
    else request("device.revoke", { id: of.id }).then(() => toast(t("devices.revoked", { name })), fail);
  };

  return (
    <li>
      <div class="grow">
        <strong>{name}</strong> {here && <span class="count">{t("devices.here")}</span>}
        <p class="hint">
          {visible(of.address)} · {t("devices.seen")} <When at={of.seen} /> · {t("devices.created")}{" "}
          <When at={of.created} />
        </p>
      </div>
      <button
        type="button"
        class="button danger"
        aria-label={t("devices.revoke.of", { name })}
        onClick={() => setAsked(true)}
      >
        {t("devices.revoke")}
      </button>
      {asked && (
        <Dialog title={t("devices.revoke.of", { name })} onClose={() => setAsked(false)}>
          <p>{t(here ? "devices.revoke.here" : "devices.revoke.text")}</p>
          <div class="row">
            <button type="button" class="button" onClick={() => setAsked(false)}>
              {words("dialog.cancel")}
            </button>
            <button type="button" class="button danger" onClick={revoke}>
              {t("devices.revoke")}
            </button>
          </div>
        </Dialog>
      )}
    </li>
  );
}

function Add() {
  const [link, setLink] = useState<DeviceLink | undefined>(undefined);
  const make = () => {
    const base = new URL(".", document.baseURI).href;
    request<DeviceLink>("device.link", { base }).then(setLink, fail);
  };

  return (
    <section>
      <h2>{t("devices.add")}</h2>
      <p class="hint">{t("devices.add.hint")}</p>
      {link && (
        <>
          <img class="qr" src={link.image} alt={t("devices.add.alt")} />
          <p class="hint">{t("devices.add.once", { minutes: Math.round(link.expires_in / 60) })}</p>
          <details>
            <summary>{t("devices.add.show")}</summary>
            <code class="wrap">{link.link}</code>
          </details>
        </>
      )}
      <div>
        <button type="button" class="button" onClick={make}>
          {t(link ? "devices.add.again" : "devices.add.make")}
        </button>
      </div>
    </section>
  );
}
