/** A passkey proves who answers: the browser asks it what the server wrote into the form, and the form is sent with what it says. */
export function mountKey(form) {
  const button = form.querySelector("[data-key]");
  const challenge = form.querySelector("#factor-challenge");
  if (!button || !challenge) return;
  if (!window.PublicKeyCredential?.parseRequestOptionsFromJSON) { button.remove(); return; }
  button.addEventListener("click", async () => {
    const { publicKey } = JSON.parse(challenge.textContent).request_options;
    try {
      const credential = await navigator.credentials.get({ publicKey: window.PublicKeyCredential.parseRequestOptionsFromJSON(publicKey) });
      form.elements.factor_credential.value = JSON.stringify(credential);
      form.requestSubmit(form.querySelector("[data-send]"));
    } catch { form.elements.factor_code.focus(); } // put away, or not taken: a code does as well
  });
}

for (const form of document.querySelectorAll("main form[data-sure]")) mountKey(form);
